"""Candidate paths as one padded array, so that path choice needs no loop over links.

A flow belongs to a table (source and destination), a table has at most K candidates, a candidate at
most P links. Two links are added to the L real ones: PAD (index L), which is never loaded, and
BARRED (index L + 1), which is never usable.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hostcc.schedule.contention_graph import places
from hostcc.schedule.errors import ViewError
from hostcc.schedule.problem import Problem

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MAX_DEMAND = 1e30
EXACT = 2.0**53
"""Integers up to here are exact in a float."""
MAX_CELLS = 1 << 26
"""Links of all candidates of all tables, padding included: half a gigabyte."""


@dataclass(frozen=True)
class Fabric:
    """T tables of K candidate paths with P links each, over L links."""

    capacity: Floats
    """(L + 2,) bytes/s or any other unit; the last two are for PAD and BARRED."""
    table: Ints
    """(T, K, P) link indices; PAD fills short paths, BARRED fills unusable candidates."""

    @property
    def link_count(self) -> int:
        """Number of real links, L."""
        return len(self.capacity) - 2

    @property
    def usable(self) -> NDArray[np.bool_]:
        """(T, K) which candidates may be chosen."""
        return np.asarray(self.table[:, :, 0] != len(self.capacity) - 1)


def make(capacity: Floats, table: Ints) -> Fabric:
    """Return a Fabric over `capacity` (L,); `table` (T, K, P) has PAD = L and BARRED = L + 1.

    Candidates over links of no capacity are barred. Raises ViewError for capacities that are NaN,
    negative or infinite.
    """
    capacity = np.asarray(capacity, np.float64)
    if not np.all((capacity >= 0) & (capacity <= MAX_DEMAND)):
        raise ViewError("link: capacity: expected finite numbers >= 0")
    links = len(capacity)
    full = np.concatenate([capacity, [np.inf, 1.0]])
    table = np.array(table, np.int64)
    if table.ndim != 3 or table.size > MAX_CELLS:
        raise ViewError(f"paths: expected at most {MAX_CELLS} links of candidates")
    if table.size and not (table.min() >= 0 and table.max() <= links + 1):
        raise ViewError(f"paths: expected link indices from 0 to {links - 1}")
    table[(full[table] == 0).any(axis=2) | (table == links + 1).any(axis=2)] = links + 1
    full[full == 0] = capacity.max(initial=0.0) or 1.0  # nothing will use it
    return Fabric(full, table)


def from_problem(problem: Problem, tables: Ints | None = None) -> Fabric:
    """Return the Fabric of a Problem, or of some of its tables (all by default).

    Candidate k of table t is its path `table_start[t] + k`.
    """
    links = problem.link_count
    tables = np.arange(len(problem.table_start) - 1) if tables is None else tables
    start, ends = problem.table_start[tables], problem.table_start[tables + 1]
    width = int((ends - start).max(initial=1))
    owner = np.repeat(np.arange(len(tables)), ends - start)
    slot = places(ends - start)
    paths = start[owner] + slot
    depth = max(1, int(np.diff(problem.path_start)[paths].max(initial=1)))
    if len(tables) * width * depth > MAX_CELLS:
        raise ViewError(f"paths: expected at most {MAX_CELLS} links of candidates")
    table = np.full((len(tables), max(1, width), depth), links + 1, np.int64)
    rows = links_of(problem, paths)
    rows[rows < 0] = links
    table[owner, slot, : rows.shape[1]] = rows
    table[owner, slot, rows.shape[1] :] = links
    del rows  # megabytes
    return make(problem.capacity, table)


@dataclass(frozen=True)
class Choices:
    """The tables of a Problem that leave a choice; between hosts of a rack there is one path."""

    fabric: Fabric
    """Their candidates."""
    row: Ints
    """(T,) the index of each table in the fabric; -1: it has one path."""


def choices(problem: Problem) -> Choices:
    """Return the choices that a Problem leaves."""
    several = np.diff(problem.table_start) > 1
    row = np.where(several, several.cumsum() - 1, -1)
    return Choices(from_problem(problem, np.flatnonzero(several)), row)


def links_of(problem: Problem, path: Ints) -> Ints:
    """Return (N, H) links of some paths, the longest of which has H; -1: no more."""
    if not len(problem.path_links):
        return np.full((len(path), 0), -1)
    first, past = problem.path_start[path], problem.path_start[path + 1]
    hops = np.arange(int((past - first).max(initial=0)))
    at = first[:, None] + hops
    beyond = at >= past[:, None]
    found: Ints = problem.path_links[np.minimum(at, len(problem.path_links) - 1, out=at)]
    found[beyond] = -1
    return found


def integer_demands(demand: Floats) -> Floats:
    """Return demands as integers, so that sums do not depend on the order of their terms.

    They are scaled by the power of two that makes the sum as large as is exact; integers keep their
    ratios. Raises ViewError for NaN, negative or infinite demands.
    """
    demand = np.asarray(demand, np.float64)
    if not np.all((demand >= 0) & (demand <= MAX_DEMAND)):
        raise ViewError("flow: demand: expected finite numbers >= 0")
    largest = float(demand.max(initial=0.0))
    if largest == 0:
        return demand
    room = np.frexp(EXACT / (2.0 * len(demand)))[1] - 1
    return np.asarray(np.rint(np.ldexp(demand, int(room - np.frexp(largest)[1]))))


def loads(fabric: Fabric, table: Ints, demand: Floats, choice: Ints) -> Floats:
    """Return (L + 2,) the demand on each link if flow f takes candidate `choice[f]` of `table[f]`.

    A flow with choice -1 is on no link.
    """
    on = choice >= 0
    chosen = fabric.table[table[on], choice[on]]
    weights = np.repeat(demand[on], chosen.shape[1])
    total = np.bincount(chosen.ravel(), weights, minlength=len(fabric.capacity))
    total[-2] = 0.0
    return np.asarray(total, np.float64)


def peak(fabric: Fabric, load: Floats) -> float:
    """Return the largest load over capacity of any link."""
    return float((load[:-2] / fabric.capacity[:-2]).max(initial=0.0))


def order(demand: Floats, table: Ints, key: Ints | None = None) -> Ints:
    """Return flow indices, largest demand first; then by table, then by `key` (a name's rank)."""
    last = np.arange(len(demand)) if key is None else key
    return np.lexsort((last, table, -demand))


def connected(count: int, one: Ints, other: Ints) -> Ints:
    """Return (count,) the lowest vertex of each vertex's connected component.

    `one`, `other` (E,) are the ends of the edges.
    """
    label = np.arange(count)
    while True:
        low = np.minimum(label[one], label[other])
        joined = label.copy()
        for ends in (label[one], label[other]):
            np.minimum.at(joined, ends, low)
        joined = joined[joined]
        if np.array_equal(joined, label):
            return label
        label = joined
