"""A ClusterView as arrays, in an order that does not depend on how the view was put together.

All algorithms work on a Problem.  Jobs, links, tables and paths are sorted by their names,
flows by (job, name); only elephants with at least one usable path are in it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from hostcc.model import ClusterView, Flow, JobProfile, Path, PathTable, SizeClass
from hostcc.schedule.errors import ViewError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MAX_VALUE = 1e30
"""No measurement is greater (FLOP, bytes, seconds)."""
TINY_S = 1e-9
"""A job whose iteration is shorter has none."""

Item = TypeVar("Item")

# Called for hundreds of thousands of paths.
_path_id: Callable[[Path], str] = attrgetter("id")
_path_links: Callable[[Path], tuple[str, ...]] = attrgetter("links")


@dataclass(frozen=True)
class Problem:
    """J jobs, F flows, L links, T tables with P paths in all.

    Paths of table t are `table_start[t] .. table_start[t + 1]`; links of path p are
    `path_links[path_start[p] : path_start[p + 1]]`.  A routing is an integer array (F,)
    of path indices, entry f within the range of table `flow_table[f]`.
    """

    job_ids: tuple[str, ...]
    flow_ids: tuple[str, ...]
    link_ids: tuple[str, ...]
    path_ids: tuple[str, ...]
    capacity: Floats
    """(L,) bytes/s, positive."""
    compute: Floats
    """(J,) seconds of computation per iteration."""
    comm_start: Floats
    """(J,) seconds from an iteration's start to its communication."""
    work: Floats
    """(J,) W, FLOP per iteration."""
    gpus: Floats
    """(J,)"""
    weight: Floats
    """(J,) the owners' wishes."""
    slowdown: Floats
    """(J,) recent iteration time over the time alone."""
    phase: Floats
    """(J,) when an iteration started, seconds."""
    period: Floats
    """(J,) seconds from one iteration to the next, as measured; 0: unknown."""
    confidence: Floats
    """(J,) 0: a guess, 1: measured over many iterations."""
    flow_job: Ints
    """(F,) not decreasing."""
    flow_bytes: Floats
    """(F,) bytes per iteration, positive."""
    flow_table: Ints
    """(F,)"""
    flow_path: Ints
    """(F,) the path that the flow is on, -1: unknown."""
    table_start: Ints
    """(T + 1,)"""
    path_start: Ints
    """(P + 1,)"""
    path_links: Ints
    blind: NDArray[np.bool_]
    """(J,) jobs with traffic of which no path is usable: what they contend with is unknown."""

    @property
    def job_count(self) -> int:
        """J."""
        return len(self.job_ids)

    @property
    def flow_count(self) -> int:
        """F."""
        return len(self.flow_ids)

    @property
    def link_count(self) -> int:
        """L."""
        return len(self.link_ids)


def build(view: ClusterView) -> Problem:
    """The arrays of a view.  Raises ViewError for what cannot be: NaN, negative measurements,
    names twice, flows of unknown jobs, paths over unknown links.  A link of no capacity has
    failed: paths over it are left out."""
    jobs = _by_name(view.jobs, [job.job for job in view.jobs], "job")
    numbers = _job_numbers(jobs)
    links = _links(view.links)
    tables = _Tables(view.tables, links, {(flow.src, flow.dst) for flow in view.flows})
    job_index = {job.job: index for index, job in enumerate(jobs)}
    names = [flow.id for flow in view.flows]
    if len(set(names)) != len(names):
        raise ViewError(f"flow: {_twice(names)}: expected once, got it twice")
    flows, unroutable = _flows(view.flows, job_index, tables)
    flow_job = np.array([job_index[flow.job] for flow in flows], np.int64)
    blind = np.zeros(len(jobs), np.bool_)
    blind[[job_index[name] for name in unroutable]] = True
    blind[flow_job] = False
    return Problem(
        job_ids=tuple(job.job for job in jobs),
        flow_ids=tuple(flow.id for flow in flows),
        link_ids=tuple(tables.alive),
        path_ids=tuple(tables.path_ids),
        capacity=np.array([links[name] for name in tables.alive], np.float64),
        **numbers,
        flow_job=flow_job,
        flow_bytes=np.array([flow.bytes for flow in flows], np.float64),
        flow_table=np.array([tables.index[flow.src, flow.dst] for flow in flows], np.int64),
        flow_path=np.array([tables.on(flow) for flow in flows], np.int64),
        table_start=tables.starts,
        path_start=tables.path_starts,
        path_links=tables.path_links,
        blind=blind,
    )


class _Tables:
    """Usable paths of the pairs that are used, by (source, destination), then by name."""

    def __init__(
        self,
        tables: Sequence[PathTable],
        links: Mapping[str, float],
        used: Set[tuple[str, str]],
    ) -> None:
        self.index: dict[tuple[str, str], int] = {}
        self.alive = {link: i for i, link in enumerate(link for link, c in links.items() if c > 0)}
        number = dict.fromkeys(links, -1) | self.alive
        ids: list[str] = []
        hops: list[int] = []
        sizes: list[int] = []
        counts: list[int] = []
        by_ends = {(table.src, table.dst): table for table in tables}
        if len(by_ends) != len(tables):
            src, dst = _twice([(table.src, table.dst) for table in tables])
            raise ViewError(f"path table: {src} to {dst}: expected one, got two")
        for key in sorted(used & by_ends.keys()):
            table = by_ends[key]
            self.index[key] = len(counts)
            paths: Sequence[Path] = table.paths
            names = list(map(_path_id, paths))
            if names != sorted(names):
                paths = sorted(paths, key=_path_id)
                names = list(map(_path_id, paths))
            if len(set(names)) != len(names):
                raise ViewError(f"path: {_twice(names)}: expected once in its table, got it twice")
            counts.append(len(paths))
            ids += names
            ways = list(map(_path_links, paths))
            sizes += map(len, ways)
            try:
                hops += map(number.__getitem__, chain.from_iterable(ways))
            except KeyError as error:
                raise ViewError(
                    f"path: of {table.src} to {table.dst}: expected known links, got {error}"
                ) from error
        self._keep(ids, np.array(hops, np.int64), np.array(sizes, np.int64), counts)

    def _keep(self, ids: list[str], hops: Ints, sizes: Ints, counts: list[int]) -> None:
        """Leave out paths over failed links; links of a path in order, each once."""
        path = np.repeat(np.arange(len(ids)), sizes)
        usable = np.ones(len(ids), np.bool_)
        usable[path[hops < 0]] = False
        width = max(1, len(self.alive))
        cells = np.sort((path * width + hops)[usable[path]], kind="stable")
        cells = cells[np.append(True, cells[1:] != cells[:-1])] if len(cells) else cells
        path, self.path_links = np.divmod(cells, width)
        kept = np.flatnonzero(usable)
        self.path_ids = ids if len(kept) == len(ids) else [ids[index] for index in kept.tolist()]
        self.path_starts = np.append(np.searchsorted(path, kept), len(path)).astype(np.int64)
        ends = np.cumsum(np.array([0, *counts], np.int64))
        self.starts = np.searchsorted(kept, ends).astype(np.int64)
        self._first: list[int] = self.starts.tolist()

    def routes(self, flow: Flow) -> bool:
        """Whether a flow has a usable path."""
        table = self.index.get((flow.src, flow.dst))
        return table is not None and self._first[table + 1] > self._first[table]

    def on(self, flow: Flow) -> int:
        """The path that a flow is on, -1 when unknown or unusable."""
        table = self.index.get((flow.src, flow.dst))
        if table is None or not flow.path:
            return -1
        first, last = self._first[table : table + 2]
        at = bisect_left(self.path_ids, flow.path, first, last)
        return at if at < last and self.path_ids[at] == flow.path else -1


def _flows(
    flows: Iterable[Flow], jobs: Mapping[str, int], tables: _Tables
) -> tuple[list[Flow], set[str]]:
    routed: list[Flow] = []
    unroutable: set[str] = set()
    for flow in flows:
        if flow.job not in jobs:
            raise ViewError(f"flow: {flow.id}: expected a known job, got {flow.job!r:.70}")
        if not 0 <= flow.bytes <= MAX_VALUE:
            raise ViewError(f"flow: {flow.id}: bytes: expected a number >= 0, got {flow.bytes}")
        if flow.size is not SizeClass.ELEPHANT or flow.bytes == 0:
            continue
        if tables.routes(flow):
            routed.append(flow)
        else:
            unroutable.add(flow.job)
    routed.sort(key=lambda flow: (flow.job, flow.id))
    return routed, unroutable


def _links(pairs: Iterable[tuple[str, float]]) -> dict[str, float]:
    links: dict[str, float] = {}
    for name, capacity in sorted(pairs):
        if name in links:
            raise ViewError(f"link: {name}: expected once, got it twice")
        if not 0 <= capacity <= MAX_VALUE:
            raise ViewError(f"link: {name}: capacity: expected bytes/s >= 0, got {capacity}")
        links[name] = float(capacity)
    return links


def _job_numbers(jobs: Sequence[JobProfile]) -> dict[str, Floats]:
    named = {
        "compute": [job.compute_s for job in jobs],
        "comm_start": [job.comm_start_s for job in jobs],
        "work": [job.work for job in jobs],
        "gpus": [job.gpus for job in jobs],
        "weight": [job.weight for job in jobs],
        "slowdown": [job.slowdown for job in jobs],
        "phase": [job.phase_s for job in jobs],
        "period": [job.period_s for job in jobs],
        "confidence": [job.confidence for job in jobs],
    }
    numbers = {name: np.array(values, np.float64) for name, values in named.items()}
    for name, values in numbers.items():
        least = -MAX_VALUE if name == "phase" else 0.0
        bad = np.flatnonzero(~((values >= least) & (values <= MAX_VALUE)))
        if bad.size:
            job = jobs[int(bad[0])].job
            raise ViewError(f"job: {job}: {name}: expected a number >= 0, got {values[bad[0]]}")
    numbers["comm_start"] = np.minimum(numbers["comm_start"], numbers["compute"])
    numbers["slowdown"] = np.maximum(numbers["slowdown"], 1.0)
    return numbers


def _by_name(items: Sequence[Item], names: Sequence[str], what: str) -> list[Item]:
    if len(set(names)) != len(names):
        raise ViewError(f"{what}: {_twice(names)}: expected once, got it twice")
    return [item for _, item in sorted(zip(names, items, strict=True), key=lambda pair: pair[0])]


def _twice(names: Iterable[Item]) -> Item:
    """The first of `names` that is there a second time."""
    seen: set[Item] = set()
    return next(name for name in names if name in seen or seen.add(name))  # type: ignore[func-returns-value]
