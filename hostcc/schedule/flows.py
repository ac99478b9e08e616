"""The flows of a view as arrays; those that say what they said before are not looked at again.

What they say is compared by columns, in runs of flows that stood next to each other before too:
of tens of thousands of flows mostly a few have changed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from operator import is_, ne
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hostcc.model import Flow, SizeClass
from hostcc.schedule.errors import ViewError, twice
from hostcc.schedule.names import places
from hostcc.schedule.tables import Tables

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MAX_BYTES = 1e30
"""No flow has more."""
CHUNK = 256
"""Flows of which all is read before the next: what a cache holds."""
SCATTERED = 16
"""Flows in a run, on average, below which runs are not worth it."""


@dataclass(frozen=True)
class FlowColumns:
    """What a plan depends on in the flows of a view, in its order."""

    id: list[str]
    job: list[str]
    src: list[str]
    dst: list[str]
    bytes: list[float]
    size: list[SizeClass]
    path: list[str]

    @staticmethod
    def of(flows: Sequence[Flow]) -> FlowColumns:
        """Raises ViewError for two flows of one name."""
        said = FlowColumns([], [], [], [], [], [], [])
        for first in range(0, len(flows), CHUNK):
            some = flows[first : first + CHUNK]
            said.id.extend([flow.id for flow in some])
            said.job.extend([flow.job for flow in some])
            said.src.extend([flow.src for flow in some])
            said.dst.extend([flow.dst for flow in some])
            said.bytes.extend([flow.bytes for flow in some])
            said.size.extend([flow.size for flow in some])
            said.path.extend([flow.path for flow in some])
        if len(set(said.id)) != len(flows):
            raise ViewError(f"flow: {twice(said.id)}: expected once, got it twice")
        return said

    def ends(self, which: Ints) -> set[tuple[str, str]]:
        """Source and destination of some."""
        return set(zip(_some(self.src, which), _some(self.dst, which), strict=True))

    def where(self, before: FlowColumns) -> Ints:
        """(Flows,) where the flow is among those of `before` that says the same; -1: nowhere."""
        at = places(self.id, before.id)
        here = np.flatnonzero(at >= 0)
        there = at[here]
        starts = np.flatnonzero((np.diff(here) != 1) | (np.diff(there) != 1)) + 1
        columns: list[tuple[list[Any], list[Any]]] = [
            (self.job, before.job),
            (self.src, before.src),
            (self.dst, before.dst),
            (self.bytes, before.bytes),
            (self.size, before.size),
            (self.path, before.path),
        ]
        if len(starts) * SCATTERED > len(here):
            columns = [(_some(new, here), _some(old, there)) for new, old in columns]
            runs = [(here, 0, 0)]
        else:
            split = np.split(here, starts)
            runs = [(run, int(run[0]), int(at[run[0]])) for run in split if len(run)]
        for run, first, begun in runs:
            changed = np.zeros(len(run), np.bool_)
            for new, old in columns:
                changed |= _differ(new[first : first + len(run)], old[begun : begun + len(run)])
            at[run[changed]] = -1
        return at


@dataclass(frozen=True)
class Rows:
    """F flows with a usable path, by (job, name); job, table and path by number."""

    at: Ints
    """(F,) which flow of the view each is."""
    job: Ints
    bytes: Floats
    table: Ints
    path: Ints
    """-1: unknown."""


@dataclass(frozen=True)
class Flows:
    """The flows of a view as they were read."""

    said: FlowColumns
    rows: Rows


def unchanged(said: FlowColumns, before: Flows, job: Ints) -> Ints:
    """(Flows,) rows that flows had before, if they say the same and their job is still there:
    job of before -> `job`, -1: gone.  -1: none."""
    row = np.full(len(before.said.id) + 1, -1)
    row[before.rows.at] = np.arange(len(before.rows.at))
    row[:-1][before.rows.at[job[before.rows.job] < 0]] = -1
    return np.asarray(row[said.where(before.said)])


def carried(before: Rows, row: Ints, job: Ints, table: Ints, shift: Ints) -> Rows:
    """The flows of the view that have a `row` before; jobs and tables of before are `job` and
    `table` now, and paths of a table of before stand `shift` farther on."""
    at = np.flatnonzero(row >= 0)
    at = at[np.argsort(row[at], kind="stable")]
    rows = row[at]
    old, path = before.table[rows], before.path[rows]
    return Rows(
        at,
        job[before.job[rows]],
        before.bytes[rows],
        table[old],
        np.where(path >= 0, path + shift[old], -1),
    )


def fresh(
    said: FlowColumns, which: Ints, jobs: Mapping[str, int], tables: Tables
) -> tuple[Rows, NDArray[np.bool_]]:
    """The elephants of the flows `which`, and (J,) jobs with some that have no usable path.

    Raises ViewError for flows of unknown jobs, and bytes that cannot be.
    """
    job = _numbers(jobs, _some(said.job, which))
    size = np.array(_some(said.bytes, which), np.float64)
    wrong = np.flatnonzero((job < 0) | ~((size >= 0) & (size <= MAX_BYTES)))
    if len(wrong):
        raise _refusal(said, int(which[wrong[0]]), jobs)
    elephants = map(is_, _some(said.size, which), repeat(SizeClass.ELEPHANT))
    big = np.flatnonzero(np.fromiter(elephants, np.bool_, len(which)) & (size > 0))
    which, job, size = which[big], job[big], size[big]
    table = tables.numbers(list(zip(_some(said.src, which), _some(said.dst, which), strict=True)))
    usable = np.append(np.diff(tables.starts) > 0, np.False_)[table]
    lost = np.zeros(len(jobs), np.bool_)
    lost[job[~usable]] = True
    kept = np.flatnonzero(usable)
    names = _some(said.id, which[kept])
    kept = kept[np.array(sorted(range(len(kept)), key=names.__getitem__), np.int64)]
    kept = kept[np.argsort(job[kept], kind="stable")]
    at, table = which[kept], table[kept]
    return Rows(at, job[kept], size[kept], table, tables.on(table, _some(said.path, at))), lost


def merged(said: FlowColumns, old: Rows, new: Rows) -> Rows:
    """Both together."""
    if not len(old.at) or not len(new.at):
        return new if len(new.at) else old
    first, past = (np.searchsorted(old.job, new.job, side).tolist() for side in ("left", "right"))
    names = _some(said.id, old.at)
    place = list(map(bisect_left, repeat(names), _some(said.id, new.at), first, past))
    return Rows(
        np.insert(old.at, place, new.at),
        np.insert(old.job, place, new.job),
        np.insert(old.bytes, place, new.bytes),
        np.insert(old.table, place, new.table),
        np.insert(old.path, place, new.path),
    )


def _refusal(said: FlowColumns, at: int, jobs: Mapping[str, int]) -> ViewError:
    name, job, size = said.id[at], said.job[at], said.bytes[at]
    if job not in jobs:
        return ViewError(f"flow: {name}: expected a known job, got {job!r:.70}")
    return ViewError(f"flow: {name}: bytes: expected a number >= 0, got {size}")


def _some(values: list[Any], which: Ints) -> list[Any]:
    return list(map(values.__getitem__, which.tolist()))


def _numbers(numbers: Mapping[Any, int], names: Iterable[Any]) -> Ints:
    """The number of each name, -1: none."""
    return np.fromiter(map(numbers.get, names, repeat(-1)), np.int64)


def _differ(new: list[Any], old: list[Any]) -> NDArray[np.bool_]:
    if new == old:
        return np.zeros(len(new), np.bool_)
    return np.fromiter(map(ne, new, old), np.bool_, len(new))
