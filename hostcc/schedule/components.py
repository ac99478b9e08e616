"""Splits the routings of a small problem into components that can be simulated independently.

Jobs that share no link, directly or through others, do not affect each other. Which of two equal
links jobs share makes no difference. So all routings consist of few distinct components, each of
which is simulated once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise, permutations, product
from math import prod

import numpy as np

from hostcc.schedule.intensity import FULL
from hostcc.schedule.problem import Ints, Problem
from hostcc.schedule.simulation_rows import SimulationRows, reduce_flows

Sharing = tuple[tuple[float, tuple[int, ...]], ...]
Shape = tuple[Sharing, tuple[float, ...]]


@dataclass(frozen=True)
class Component:
    """Jobs that affect each other under a routing; equal components behave the same."""

    members: tuple[int, ...]
    sharing: Sharing
    """(Capacity, flows) of every link that two flows of the members cross and can fill."""
    caps: tuple[float, ...]
    """The least capacity on the path of each of the members' flows, in order."""


@dataclass(frozen=True)
class Layout:
    """One way to route all flows, as a set of components."""

    routing: tuple[int, ...]
    """(F,) path indices: of equivalent routings the one that moves the fewest flows."""
    components: tuple[Component, ...]
    moved: tuple[int, ...] = ()
    """Flows that would leave their present path."""


class SmallProblem:
    """A problem few enough in routings to enumerate all of them."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        first = problem.table_start[problem.flow_table]
        last = problem.table_start[problem.flow_table + 1]
        self.choices = [
            range(low, high) for low, high in zip(first.tolist(), last.tolist(), strict=True)
        ]
        starts = problem.path_start.tolist()
        links = problem.path_links.tolist()
        self.path_links = [links[low:high] for low, high in pairwise(starts)]
        self.capacity: list[float] = problem.capacity.tolist()
        self.path_caps = [
            min((self.capacity[link] for link in own), default=np.inf) for own in self.path_links
        ]
        self.flow_job: list[int] = problem.flow_job.tolist()
        self.flow_bytes: list[float] = problem.flow_bytes.tolist()
        self.flow_path: list[int] = problem.flow_path.tolist()

    @property
    def routings(self) -> int:
        """Number of routings."""
        return prod(len(choice) for choice in self.choices)

    def layouts(self) -> Iterator[Layout]:
        """Yield one routing of each behaviour: the one that moves the fewest flows."""
        known = [flow for flow, path in enumerate(self.flow_path) if path >= 0]
        nearest: dict[Shape, tuple[int, tuple[int, ...]]] = {}
        for routing in product(*self.choices):
            key = self._key(routing)
            moved = sum(routing[flow] != self.flow_path[flow] for flow in known)
            if key not in nearest or moved < nearest[key][0]:
                nearest[key] = moved, routing
        for key, (_, routing) in nearest.items():
            moves = tuple(flow for flow in known if routing[flow] != self.flow_path[flow])
            yield Layout(routing, self._parts(*key), moves)

    def layout(self, routing: tuple[int, ...]) -> Layout:
        """Return the layout of a routing."""
        return Layout(routing, self._parts(*self._key(routing)))

    def _key(self, routing: tuple[int, ...]) -> Shape:
        on: dict[int, list[int]] = {}
        for flow, path in enumerate(routing):
            for link in self.path_links[path]:
                on.setdefault(link, []).append(flow)
        caps = tuple(self.path_caps[path] for path in routing)
        # A link that its flows cannot fill, all at their fastest, delays none of them.
        shared = sorted(
            (self.capacity[link], tuple(flows))
            for link, flows in on.items()
            if len(flows) > 1 and sum(caps[flow] for flow in flows) > self.capacity[link] * FULL
        )
        return tuple(shared), caps

    def _parts(self, shared: Sharing, caps: tuple[float, ...]) -> tuple[Component, ...]:
        parent = list(range(self.problem.job_count))

        def root(job: int) -> int:
            while parent[job] != job:
                job = parent[job]
            return job

        for _, flows in shared:
            for flow in flows[1:]:
                parent[root(self.flow_job[flow])] = root(self.flow_job[flows[0]])
        groups: dict[int, list[int]] = {}
        for job in range(len(parent)):
            groups.setdefault(root(job), []).append(job)
        return tuple(
            Component(
                tuple(members),
                tuple(one for one in shared if self.flow_job[one[1][0]] in members),
                tuple(cap for cap, job in zip(caps, self.flow_job, strict=True) if job in members),
            )
            for members in groups.values()
        )

    def rows(self, component: Component) -> SimulationRows:
        """Return a component's flows for the simulation; jobs are numbered by their place in it."""
        place = {job: index for index, job in enumerate(component.members)}
        flows = [flow for flow, job in enumerate(self.flow_job) if job in place]
        # Every shared link, and one link of its own for each flow that caps it.
        capacity = [one for one, _ in component.sharing] + list(component.caps)
        count = len(component.sharing)
        links = [
            [*(k for k in range(count) if flow in component.sharing[k][1]), count + index]
            for index, flow in enumerate(flows)
        ]
        usable = [[link for link in own if capacity[link] < np.inf] for own in links]
        return reduce_flows(
            len(place),
            [place[self.flow_job[flow]] for flow in flows],
            [self.flow_bytes[flow] for flow in flows],
            usable,
            capacity,
        )

    def pairs(self, component: Component) -> set[tuple[int, int]]:
        """Return the pairs of members that share a link, as places, the lower one first."""
        place = {job: index for index, job in enumerate(component.members)}
        found = set()
        for _, flows in component.sharing:
            jobs = sorted({place[self.flow_job[flow]] for flow in flows})
            found |= {(a, b) for i, a in enumerate(jobs) for b in jobs[i + 1 :]}
        return found

    def orders(self, component: Component) -> Ints:
        """Return (N, members) ranks: one order of each set that differs only between jobs that do
        not meet."""
        pairs = sorted(self.pairs(component))
        found: dict[tuple[bool, ...], tuple[int, ...]] = {}
        for rank in permutations(range(len(component.members))):
            found.setdefault(tuple(rank[a] < rank[b] for a, b in pairs), rank)
        return np.array(list(found.values()), np.int64)
