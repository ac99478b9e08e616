"""A ClusterView as arrays, in an order that does not depend on how the view was put together.

All algorithms work on a Problem.  Jobs, links, tables and paths are sorted by their names,
flows by (job, name); only elephants with at least one usable path are in it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from operator import attrgetter
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from hostcc.model import ClusterView, Flow, JobProfile, SizeClass
from hostcc.schedule.errors import ViewError, twice
from hostcc.schedule.tables import Tables
from hostcc.schedule.tables import read as read_tables

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MAX_VALUE = 1e30
"""No measurement is greater (FLOP, bytes, seconds)."""
TINY_S = 1e-9
"""A job whose iteration is shorter has none."""

Item = TypeVar("Item")

Said = tuple[str, str, str, str, float, SizeClass, str]
"""Job, name and the rest of what a plan depends on in a flow: sorted like flows."""

# Called for tens of thousands of flows.
_say: Callable[[Flow], Said] = attrgetter("job", "id", "src", "dst", "bytes", "size", "path")


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


@dataclass(frozen=True)
class Reading:
    """A view as it was read, for the next one to be read from."""

    problem: Problem
    tables: Tables
    links: tuple[tuple[str, float], ...]
    """Of the view."""
    said: list[Said]
    """(F,) what there is to a flow."""


def build(view: ClusterView) -> Problem:
    """The arrays of a view.  Raises ViewError for what cannot be: NaN, negative measurements,
    names twice, flows of unknown jobs, paths over unknown links.  A link of no capacity has
    failed: paths over it are left out."""
    return read(view).problem


def read(view: ClusterView, before: Reading | None = None) -> Reading:
    """The same, with what helps to read the next view.  What the view has in common with the
    one of `before`, any other, is taken from there; the result is the same.  Raises ViewError."""
    jobs = _by_name(view.jobs, [job.job for job in view.jobs], "job")
    numbers = _job_numbers(jobs)
    job_index = {job.job: index for index, job in enumerate(jobs)}
    names = [flow.id for flow in view.flows]
    if len(set(names)) != len(names):
        raise ViewError(f"flow: {twice(names)}: expected once, got it twice")
    known = _Known(before, view, job_index)
    past = None if before is None else before.tables
    links = _links(view.links) if known.links is None else known.links
    used = {(flow.src, flow.dst) for flow in known.others(view.flows)}
    tables, now = read_tables(view.tables, links, used, past, known.still())
    old = known.flows(tables, now)
    flows, unroutable = _flows(known.others(view.flows), job_index, tables)
    found = _merged(old, _fresh(flows, job_index, tables))
    blind = np.zeros(len(jobs), np.bool_)
    blind[[job_index[name] for name in unroutable]] = True
    blind[found.job] = False
    problem = Problem(
        job_ids=tuple(job.job for job in jobs),
        flow_ids=tuple([one[1] for one in found.said]),
        link_ids=tuple(tables.alive),
        path_ids=tables.path_ids,
        capacity=np.array([links[name] for name in tables.alive], np.float64),
        **numbers,
        flow_job=found.job,
        flow_bytes=found.bytes,
        flow_table=found.table,
        flow_path=found.path,
        table_start=tables.starts,
        path_start=tables.path_starts,
        path_links=tables.path_links,
        blind=blind,
    )
    return Reading(problem, tables, view.links, found.said)


@dataclass(frozen=True)
class _Flows:
    """Flows with a path, by (job, name)."""

    said: list[Said]
    job: Ints
    bytes: Floats
    table: Ints
    path: Ints


class _Known:
    """Which flows of a view say what they said before."""

    def __init__(
        self, before: Reading | None, view: ClusterView, job_index: Mapping[str, int]
    ) -> None:
        self.before = before
        self.links = before.tables.links if before and before.links == view.links else None
        self.row = np.full(len(view.flows), -1)
        """(Flows of the view,) their places before."""
        if before is None or not before.said or not before.tables.whole:
            return
        now = [job_index.get(name, -1) for name in before.problem.job_ids]
        self.job = np.array(now, np.int64)
        place = dict(zip(before.said, range(len(before.said)), strict=True))
        self.row[:] = list(map(place.get, map(_say, view.flows), repeat(-1)))
        self.row[self.job[before.problem.flow_job][self.row] < 0] = -1

    def still(self) -> NDArray[np.bool_] | None:
        """(T before,) tables that they use."""
        if self.before is None:
            return None
        found = np.zeros(len(self.before.tables.keys), np.bool_)
        found[self.before.problem.flow_table[self.row[self.row >= 0]]] = True
        return found

    def flows(self, tables: Tables, now: Ints) -> _Flows | None:
        """Those that are taken over, now that the tables are read: each of before is `now` ..."""
        if self.before is None or not tables.whole:
            self.row[:] = -1
        if self.before is None or not (self.row >= 0).any():
            return None
        problem, said = self.before.problem, self.before.said
        table = now[problem.flow_table]
        self.row[table[self.row] < 0] = -1
        rows = np.sort(self.row[self.row >= 0])
        shift = tables.starts[table[rows]] - problem.table_start[problem.flow_table[rows]]
        path = problem.flow_path[rows]
        return _Flows(
            [said[row] for row in rows.tolist()],
            self.job[problem.flow_job[rows]],
            problem.flow_bytes[rows],
            table[rows],
            np.where(path >= 0, path + shift, -1),
        )

    def others(self, flows: Sequence[Flow]) -> list[Flow]:
        """Those that are not."""
        return [flows[at] for at in np.flatnonzero(self.row < 0).tolist()]


def _fresh(flows: list[Flow], job_index: Mapping[str, int], tables: Tables) -> _Flows:
    return _Flows(
        list(map(_say, flows)),
        np.array([job_index[flow.job] for flow in flows], np.int64),
        np.array([flow.bytes for flow in flows], np.float64),
        np.array([tables.index[flow.src, flow.dst] for flow in flows], np.int64),
        np.array([tables.on(flow) for flow in flows], np.int64),
    )


def _merged(old: _Flows | None, new: _Flows) -> _Flows:
    if old is None:
        return new
    at = [bisect_left(old.said, one) for one in new.said]
    said: list[Said] = []
    last = 0
    for place, one in zip(at, new.said, strict=True):
        said += old.said[last:place]
        said.append(one)
        last = place
    said += old.said[last:]
    return _Flows(
        said,
        np.insert(old.job, at, new.job),
        np.insert(old.bytes, at, new.bytes),
        np.insert(old.table, at, new.table),
        np.insert(old.path, at, new.path),
    )


def _flows(
    flows: Iterable[Flow], jobs: Mapping[str, int], tables: Tables
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
        raise ViewError(f"{what}: {twice(names)}: expected once, got it twice")
    return [item for _, item in sorted(zip(names, items, strict=True), key=lambda pair: pair[0])]
