"""A ClusterView as arrays, in an order that does not depend on how the view was built.

All algorithms work on a Problem. Jobs, links, tables and paths are sorted by name, flows by (job,
name). Only elephants with at least one usable path are included.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from hostcc.model import ClusterView, JobProfile, PathTable
from hostcc.schedule.errors import ViewError, first_duplicate
from hostcc.schedule.flows import FlowColumns, FlowRows, Flows, carried, fresh, merged, unchanged
from hostcc.schedule.name_list import NameList, places
from hostcc.schedule.tables import Tables
from hostcc.schedule.tables import read as read_tables

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MAX_VALUE = 1e30
"""Largest measurement accepted (FLOP, bytes, seconds)."""
LEAST_CAPACITY = 1e-6
"""Capacity in bytes/s below which a link counts as failed."""
TINY_S = 1e-9
"""Iteration time in seconds below which a job counts as having none."""

# Called for thousands of jobs.
_job_name: Callable[[JobProfile], str] = attrgetter("job")
_job_assumed: Callable[[JobProfile], str] = attrgetter("assumed")


@dataclass(frozen=True)
class Problem:
    """J jobs, F flows, L links, T tables with P paths in all.

    Table t has the paths `table_start[t] .. table_start[t + 1]`; path p has the links
    `path_links[path_start[p] : path_start[p + 1]]`. A routing is an integer array (F,) of path
    indices, entry f within the range of table `flow_table[f]`.
    """

    job_ids: tuple[str, ...]
    flow_ids: tuple[str, ...]
    link_ids: tuple[str, ...]
    path_ids: NameList
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
    """(J,) weights that the owners gave."""
    slowdown: Floats
    """(J,) recent iteration time over that alone."""
    phase: Floats
    """(J,) start of an iteration, seconds; NaN: unknown."""
    period: Floats
    """(J,) measured seconds from one iteration to the next; 0: unknown."""
    comm: Floats
    """(J,) t as its hosts measured it, seconds; 0: unknown."""
    confidence: Floats
    """(J,) 0: a guess, 1: measured over many iterations."""
    flow_job: Ints
    """(F,) non-decreasing."""
    flow_bytes: Floats
    """(F,) bytes per iteration, positive."""
    flow_table: Ints
    """(F,)"""
    flow_path: Ints
    """(F,) present path of the flow; -1: unknown."""
    table_start: Ints
    """(T + 1,)"""
    path_start: Ints
    """(P + 1,)"""
    path_links: Ints
    blind: NDArray[np.bool_]
    """(J,) jobs with traffic but no usable path: their contenders are unknown."""
    assumed: tuple[str, ...] = ()
    """(J,) how `work` is assumed, in words; empty text: measured."""
    ways: Sequence[Sequence[tuple[str, ...]]] = ()
    """(T,) links of each path in the order of its hops, by name; empty: the order is not known."""

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
class ParsedView:
    """A view as arrays, with what speeds up parsing the next one."""

    problem: Problem
    tables: Tables
    links: tuple[tuple[str, float], ...]
    """The view's links."""
    flows: Flows


def build(view: ClusterView) -> Problem:
    """Return the arrays of a view; paths over failed links (capacity 0) are left out.

    Raises ViewError for NaN, negative measurements, duplicate names, flows of unknown jobs and
    paths over unknown links.
    """
    return read(view).problem


def read(view: ClusterView, before: ParsedView | None = None) -> ParsedView:
    """Parse a view.

    What it has in common with the view of `before`, any other, is taken from there; the result is
    the same. Raises ViewError.
    """
    jobs = _by_name(view.jobs)
    numbers = _job_numbers(jobs)
    job_ids = tuple(map(_job_name, jobs))
    said = FlowColumns.of(view.flows)
    same = before is not None and before.links == view.links
    links = before.tables.links if before is not None and same else _links(view.links)
    tables, found, blind = _flows(said, view.tables, links, job_ids, before)
    problem = Problem(
        job_ids=job_ids,
        flow_ids=tuple(map(said.id.__getitem__, found.at.tolist())),
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
        assumed=tuple(map(_job_assumed, jobs)),
        ways=tables.ways,
    )
    return ParsedView(problem, tables, view.links, Flows(said, found))


def _flows(
    said: FlowColumns,
    given: Sequence[PathTable],
    links: Mapping[str, float],
    job_ids: tuple[str, ...],
    before: ParsedView | None,
) -> tuple[Tables, FlowRows, NDArray[np.bool_]]:
    """Return the path tables in use, the flows, and (J,) jobs without any usable path."""
    everything = np.arange(len(said.id))
    jobs = dict(zip(job_ids, range(len(job_ids)), strict=True))
    if before is None:
        tables, _ = read_tables(given, links, said.ends(everything))
        found, lost = fresh(said, everything, jobs, tables)
    else:
        past, whole = before.flows.rows, before.tables.whole
        job = places(before.problem.job_ids, job_ids)
        row = unchanged(said, before.flows, job) if whole else np.full(len(said.id), -1)
        still = np.zeros(len(before.tables.keys), np.bool_)
        still[past.table[row[row >= 0]]] = True
        ends = said.ends(np.flatnonzero(row < 0))
        tables, now = read_tables(given, links, ends, before.tables, still)
        table = now if tables.whole else np.full(len(now), -1)
        row[np.append(table[past.table] < 0, np.True_)[row]] = -1
        shift = tables.starts[table] - before.tables.starts[:-1]
        found, lost = fresh(said, np.flatnonzero(row < 0), jobs, tables)
        found = merged(said, carried(past, row, job, table, shift), found)
    lost[found.job] = False
    return tables, found, lost


def _links(pairs: Iterable[tuple[str, float]]) -> dict[str, float]:
    links: dict[str, float] = {}
    for name, capacity in sorted(pairs):
        if name in links:
            raise ViewError(f"link: {name}: expected once, got it twice")
        if not 0 <= capacity <= MAX_VALUE:
            raise ViewError(f"link: {name}: capacity: expected bytes/s >= 0, got {capacity}")
        links[name] = float(capacity) if capacity >= LEAST_CAPACITY else 0.0
    return links


def _job_numbers(jobs: Sequence[JobProfile]) -> dict[str, Floats]:
    named = {
        "compute": "compute_s",
        "comm_start": "comm_start_s",
        "work": "work",
        "gpus": "gpus",
        "weight": "weight",
        "slowdown": "slowdown",
        "period": "period_s",
        "comm": "comm_s",
        "confidence": "confidence",
    }
    # Job by job, because the attributes of a job are close together in memory.
    get = attrgetter(*named.values())
    rows = np.fromiter(chain.from_iterable(map(get, jobs)), np.float64, len(jobs) * len(named))
    columns = np.ascontiguousarray(rows.reshape(-1, len(named)).T)
    numbers = dict(zip(named, columns, strict=True))
    for name, values in numbers.items():
        bad = np.flatnonzero(~((values >= 0.0) & (values <= MAX_VALUE)))
        if bad.size:
            job = jobs[int(bad[0])].job
            raise ViewError(f"job: {job}: {name}: expected a number >= 0, got {values[bad[0]]}")
    numbers["phase"] = _phases(jobs)
    numbers["comm_start"] = np.minimum(numbers["comm_start"], numbers["compute"])
    numbers["slowdown"] = np.maximum(numbers["slowdown"], 1.0)
    return numbers


def _phases(jobs: Sequence[JobProfile]) -> Floats:
    told = [one.phase_s for one in jobs]
    for one, phase in zip(jobs, told, strict=True):
        if phase is not None and not abs(phase) <= MAX_VALUE:
            raise ViewError(f"job: {one.job}: phase: expected a number, got {phase}")
    return np.array([math.nan if phase is None else phase for phase in told], np.float64)


def _by_name(jobs: Sequence[JobProfile]) -> list[JobProfile]:
    names = list(map(_job_name, jobs))
    if len(set(names)) != len(names):
        raise ViewError(f"job: {first_duplicate(names)}: expected once, got it twice")
    return sorted(jobs, key=_job_name)
