"""A view's flows as arrays; flows that have not changed since the last view are not read again.

They are compared column by column, in runs of flows that were neighbours in the last view too: of
tens of thousands of flows usually a few have changed.
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
from hostcc.schedule.errors import ViewError, first_duplicate
from hostcc.schedule.name_list import places
from hostcc.schedule.tables import Tables

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MAX_BYTES = 1e30
"""Largest number of bytes accepted for a flow."""
READ_AT_ONCE = 256
"""Flows whose attributes are read together, so that they stay in the processor's cache."""
MIN_MEAN_RUN = 16
"""Mean number of flows in a run below which comparing by runs does not pay."""


@dataclass(frozen=True)
class FlowColumns:
    """What a plan depends on in a view's flows, in the view's order."""

    id: list[str]
    job: list[str]
    src: list[str]
    dst: list[str]
    bytes: list[float]
    size: list[SizeClass]
    path: list[str]

    @staticmethod
    def of(flows: Sequence[Flow]) -> FlowColumns:
        """Read the flows. Raises ViewError for two flows of one name."""
        said = FlowColumns([], [], [], [], [], [], [])
        for first in range(0, len(flows), READ_AT_ONCE):
            some = flows[first : first + READ_AT_ONCE]
            said.id.extend([flow.id for flow in some])
            said.job.extend([flow.job for flow in some])
            said.src.extend([flow.src for flow in some])
            said.dst.extend([flow.dst for flow in some])
            said.bytes.extend([flow.bytes for flow in some])
            said.size.extend([flow.size for flow in some])
            said.path.extend([flow.path for flow in some])
        if len(set(said.id)) != len(flows):
            raise ViewError(f"flow: {first_duplicate(said.id)}: expected once, got it twice")
        return said

    def ends(self, which: Ints) -> set[tuple[str, str]]:
        """Return (source, destination) of the flows `which`."""
        return set(zip(_some(self.src, which), _some(self.dst, which), strict=True))

    def where(self, before: FlowColumns) -> Ints:
        """Return (flows,) the index of each flow in `before` if it is unchanged; -1: it is not."""
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
        if len(starts) * MIN_MEAN_RUN > len(here):
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
class FlowRows:
    """F flows with a usable path, by (job, name); job, table and path are indices."""

    at: Ints
    """(F,) index of the flow in the view."""
    job: Ints
    bytes: Floats
    table: Ints
    path: Ints
    """-1: unknown."""


@dataclass(frozen=True)
class Flows:
    """A view's flows, as columns and as the rows made of them."""

    said: FlowColumns
    rows: FlowRows


def unchanged(said: FlowColumns, before: Flows, job: Ints) -> Ints:
    """Return (flows,) the previous row of each unchanged flow whose job still exists; -1: none.

    `job` maps the jobs of `before` to present ones; -1: gone.
    """
    row = np.full(len(before.said.id) + 1, -1)
    row[before.rows.at] = np.arange(len(before.rows.at))
    row[:-1][before.rows.at[job[before.rows.job] < 0]] = -1
    return np.asarray(row[said.where(before.said)])


def carried(before: FlowRows, row: Ints, job: Ints, table: Ints, shift: Ints) -> FlowRows:
    """Return the rows of flows that had a `row` before, renumbered.

    `job` and `table` give the present index of previous jobs and tables; paths of a previous table
    have moved by `shift`.
    """
    at = np.flatnonzero(row >= 0)
    at = at[np.argsort(row[at], kind="stable")]
    rows = row[at]
    old, path = before.table[rows], before.path[rows]
    return FlowRows(
        at,
        job[before.job[rows]],
        before.bytes[rows],
        table[old],
        np.where(path >= 0, path + shift[old], -1),
    )


def fresh(
    said: FlowColumns, which: Ints, jobs: Mapping[str, int], tables: Tables
) -> tuple[FlowRows, NDArray[np.bool_]]:
    """Read the elephants among the flows `which`.

    Also returns (J,) jobs that have flows without a usable path. Raises ViewError for flows of
    unknown jobs, and for impossible sizes.
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
    return FlowRows(at, job[kept], size[kept], table, tables.on(table, _some(said.path, at))), lost


def merged(said: FlowColumns, old: FlowRows, new: FlowRows) -> FlowRows:
    """Return both sets of rows in one, in order."""
    if not len(old.at) or not len(new.at):
        return new if len(new.at) else old
    first, past = (np.searchsorted(old.job, new.job, side).tolist() for side in ("left", "right"))
    names = _some(said.id, old.at)
    place = list(map(bisect_left, repeat(names), _some(said.id, new.at), first, past))
    return FlowRows(
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
    """Return the number of each name; -1: unknown."""
    return np.fromiter(map(numbers.get, names, repeat(-1)), np.int64)


def _differ(new: list[Any], old: list[Any]) -> NDArray[np.bool_]:
    if new == old:
        return np.zeros(len(new), np.bool_)
    return np.fromiter(map(ne, new, old), np.bool_, len(new))
