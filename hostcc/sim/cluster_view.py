"""What a scheduler sees of a replayed cluster: profiles, flows, and the paths that are up."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from hostcc.model import ClusterView, Flow, JobProfile, Path, PathTable
from hostcc.sim.cluster_conditions import bytes_factor, measured
from hostcc.sim.cluster_jobs import End, PlacedJob
from hostcc.sim.fabrics import Topology

Links = tuple[int, ...]


@dataclass
class ViewBuilder:
    """Builds views; what does not change between two of them is built once."""

    topology: Topology
    jobs: Sequence[PlacedJob]
    alone: Sequence[float]
    """(J,) seconds of an iteration alone."""
    seed: int
    """Of names, and so of every choice by hash."""
    error: float
    phased: bool
    """Whether views say when iterations begin: all at once, for who then shifts them."""
    failed: frozenset[int] = frozenset()
    """Links that are down."""
    _all: dict[tuple[End, End], list[Links]] = field(default_factory=dict)
    _tables: dict[tuple[End, End], PathTable] = field(default_factory=dict)
    _flows: dict[int, tuple[Flow, ...]] = field(default_factory=dict)
    _profiles: dict[int, JobProfile] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Name the links once: views with the same tuple are read quickly."""
        rates = self.topology.link_rates
        self._names = [f"l{link}" for link in range(len(rates))]
        self._links = tuple(zip(self._names, rates, strict=True))

    def view(
        self, sending: Sequence[int], kept: Mapping[tuple[int, int], int] | None
    ) -> ClusterView:
        """Return the view of some jobs; `kept`: paths that flows are known to have, if any are."""
        tables = {}
        flows: list[Flow] = []
        for job in sending:
            for flow in self.jobs[job].flows:
                ends = (flow.source, flow.destination)
                tables[ends] = self._table(ends)
            own = self._seen(job)
            if kept is not None:
                own = tuple(
                    replace(flow, path=self._path(job, at, kept)) for at, flow in enumerate(own)
                )
            flows += own
        profiles = tuple(self._profile(job) for job in sending)
        return ClusterView(profiles, tuple(flows), tuple(tables.values()), self._links)

    def fail(self, links: frozenset[int]) -> None:
        """Leave out the paths over these links from now on, where there are others."""
        self.failed = links
        self._tables.clear()

    def forget(self, jobs: set[int]) -> None:
        """Drop what is known of jobs that are gone."""
        for job in jobs:
            self._flows.pop(job, None)
            self._profiles.pop(job, None)

    def paths(self, job: int, flow: int) -> list[Links]:
        """Return all paths of a flow, by their numbers."""
        one = self.jobs[job].flows[flow]
        return self._every((one.source, one.destination))

    def usable(self, job: int, flow: int) -> list[int]:
        """Return the numbers of the paths that are up; all, if none is."""
        return self._up(self.paths(job, flow))

    def hashed(self, job: int, flow: int) -> int:
        """Return the path that a switch would choose by hash."""
        usable = self.usable(job, flow)
        digest = hashlib.sha256(f"{self.name(job)}.{flow:05}".encode()).digest()
        return usable[int.from_bytes(digest[:8]) % len(usable)]

    def name(self, job: int) -> str:
        """Return a job's name."""
        return f"s{self.seed}j{job:07}" if self.seed else f"j{job:07}"

    def _every(self, ends: tuple[End, End]) -> list[Links]:
        if ends not in self._all:
            self._all[ends] = self.topology.paths(*ends)
        return self._all[ends]

    def _up(self, paths: Sequence[Links]) -> list[int]:
        every = range(len(paths))
        if not self.failed:
            return list(every)
        return [at for at in every if not self.failed.intersection(paths[at])] or list(every)

    def _path(self, job: int, flow: int, kept: Mapping[tuple[int, int], int]) -> str:
        at = kept.get((job, flow), -1)
        return _path_name(at) if at >= 0 and at in self.usable(job, flow) else ""

    def _table(self, ends: tuple[End, End]) -> PathTable:
        if ends not in self._tables:
            found = self._every(ends)
            self._tables[ends] = PathTable(
                _end(ends[0]),
                _end(ends[1]),
                tuple(
                    Path(_path_name(at), tuple(map(self._names.__getitem__, found[at])))
                    for at in self._up(found)
                ),
            )
        return self._tables[ends]

    def _seen(self, job: int) -> tuple[Flow, ...]:
        if job not in self._flows:
            name = self.name(job)
            factor = bytes_factor(name, self.error, self.seed)
            self._flows[job] = tuple(
                Flow(
                    f"{name}.{at:05}", name, _end(flow.source), _end(flow.destination),
                    flow.bytes * factor,
                )
                for at, flow in enumerate(self.jobs[job].flows)
            )  # fmt: skip
        return self._flows[job]

    def _profile(self, job: int) -> JobProfile:
        if job not in self._profiles:
            name = self.name(job)
            found = measured(self.jobs[job], name, self.alone[job], self.error, self.seed)
            self._profiles[job] = replace(found, phase_s=0.0) if self.phased else found
        return self._profiles[job]


def job_of(name: str) -> int:
    """Return the number of a job by its name."""
    return int(name.rpartition("j")[2])


def _path_name(at: int) -> str:
    return f"p{at:05}"


def _end(end: End) -> str:
    return f"h{end[0]}.{end[1]}"
