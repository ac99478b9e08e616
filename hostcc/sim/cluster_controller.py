"""Turns arrivals and departures of a replayed cluster into plans, and plans into engine orders."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from hostcc.model import ClusterView, Flow, JobProfile, Path, PathTable
from hostcc.schedule.plan import Solution
from hostcc.sim.cluster_jobs import End, PlacedJob
from hostcc.sim.cluster_schedulers import Scheduler
from hostcc.sim.fabrics import Topology
from hostcc.sim.periodic import Orders

MOST_UNCOMPRESSED = 4095
"""Lowest level of the engine."""


@dataclass
class ClusterController:
    """Called by the engine when jobs arrive or leave; makes a plan when those that send change."""

    topology: Topology
    jobs: Sequence[PlacedJob]
    alone: Sequence[float]
    """(J,) seconds of an iteration alone."""
    scheduler: Scheduler
    levels: int
    progress: Callable[[float], None] = lambda _: None
    clock: Callable[[], float] = time.perf_counter
    plans: int = 0
    moves: int = 0
    """Flows that changed their path while their job ran."""
    planning_seconds: float = 0.0
    """By `clock`, not simulated."""
    _sending: tuple[int, ...] = ()
    _routes: dict[tuple[int, int], int] = field(default_factory=dict)
    """(Job, flow) -> the path that it has, of its table."""
    _paths: dict[tuple[End, End], list[tuple[int, ...]]] = field(default_factory=dict)
    _tables: dict[tuple[End, End], PathTable] = field(default_factory=dict)
    _flows: dict[int, tuple[Flow, ...]] = field(default_factory=dict)
    _before: Solution | None = None

    def __post_init__(self) -> None:
        """Name the links once: views with the same tuple are read quickly."""
        rates = self.topology.link_rates
        self._links = tuple((f"l{link}", rate) for link, rate in enumerate(rates))

    def __call__(self, now: float, running: Sequence[int]) -> Orders:
        """Return orders for the jobs that run at `now`."""
        self.progress(now)
        sending = tuple(job for job in running if self.jobs[job].flows)
        if sending == self._sending or not self.scheduler.shared:
            return Orders()
        gone = set(self._sending) - set(sending)
        self._routes = {key: path for key, path in self._routes.items() if key[0] not in gone}
        for job in gone:
            self._flows.pop(job, None)
        self._sending = sending
        if not sending:
            return Orders()
        begun = self.clock()
        solution = self.scheduler.solved(self._view(sending), self.levels, self._before)
        self._before = solution
        orders = self._orders(solution)
        self.plans += 1
        self.planning_seconds += self.clock() - begun
        return orders

    def _view(self, sending: Sequence[int]) -> ClusterView:
        tables = {}
        flows: list[Flow] = []
        profiles = []
        for job in sending:
            placed = self.jobs[job]
            for flow in placed.flows:
                ends = (flow.source, flow.destination)
                tables[ends] = self._table(ends)
            flows += self._seen(job)
            size = placed.size
            profiles.append(
                JobProfile(
                    _name(job), size.compute_s, size.comm_start_s, placed.flop, placed.gpus,
                    period_s=self.alone[job],
                )
            )  # fmt: skip
        return ClusterView(tuple(profiles), tuple(flows), tuple(tables.values()), self._links)

    def _table(self, ends: tuple[End, End]) -> PathTable:
        if ends not in self._tables:
            found = self.topology.paths(*ends)
            self._paths[ends] = found
            self._tables[ends] = PathTable(
                _end(ends[0]),
                _end(ends[1]),
                tuple(
                    Path(f"p{at:05}", tuple(f"l{link}" for link in path))
                    for at, path in enumerate(found)
                ),
            )
        return self._tables[ends]

    def _seen(self, job: int) -> tuple[Flow, ...]:
        if job in self._flows:
            return self._flows[job]
        name = _name(job)
        flows = []
        for at, flow in enumerate(self.jobs[job].flows):
            path = self._routes.get((job, at), -1) if self.scheduler.stays else -1
            flows.append(
                Flow(
                    f"{name}.{at:05}", name, _end(flow.source), _end(flow.destination), flow.bytes,
                    path="" if path < 0 else f"p{path:05}",
                )
            )  # fmt: skip
        self._flows[job] = tuple(flows)
        return self._flows[job]

    def _orders(self, found: Solution) -> Orders:
        problem, decision = found.problem, found.decision
        numbers = [int(name[1:]) for name in problem.job_ids]
        routes = {}
        chosen = decision.routing - problem.table_start[problem.flow_table]
        for flow, job, path in zip(
            problem.flow_ids, problem.flow_job.tolist(), chosen.tolist(), strict=True
        ):
            key = (numbers[job], int(flow.rpartition(".")[2]))
            was = self._routes.get(key)
            if was == path:
                continue
            self.moves += was is not None
            self._routes[key] = path
            ends = self.jobs[key[0]].flows[key[1]]
            routes[key] = self._paths[ends.source, ends.destination][path]
            if self.scheduler.stays:
                self._flows.pop(key[0], None)
        levels, weights = {}, {}
        if self.scheduler.levels and self.scheduler.compressed:
            levels = dict(zip(numbers, found.level.tolist(), strict=True))
        elif self.scheduler.levels:
            ranks = [min(rank, MOST_UNCOMPRESSED) for rank in decision.rank.tolist()]
            levels = dict(zip(numbers, ranks, strict=True))
        if self.scheduler.weights:
            weights = dict(zip(numbers, found.weight.tolist(), strict=True))
        return Orders(levels, routes, weights)


def _name(job: int) -> str:
    return f"j{job:07}"


def _end(end: End) -> str:
    return f"h{end[0]}.{end[1]}"
