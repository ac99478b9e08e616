"""Groups of path tables that can load each other's links, and the part of a path that is a choice.

A link is avoidable if not all paths of a table use it. Flows whose tables share no avoidable link
cannot meet by any choice, so groups are routed on their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from hostcc.schedule.contention_graph import places, spans
from hostcc.schedule.errors import ViewError
from hostcc.schedule.paths import fabric as fabrics
from hostcc.schedule.paths.fabric import Fabric, Ints
from hostcc.schedule.problem import Problem


@dataclass(frozen=True)
class Hops:
    """The H hops of all P paths of T tables, in order where that is known."""

    problem: Problem
    link: Ints
    """(H,)"""
    path: Ints
    """(H,) non-decreasing."""
    table: Ints
    """(H,)"""
    choice: NDArray[np.bool_]
    """(H,) whether another path of its table goes without this link."""
    ordered: bool
    """Whether the hops of each path are in their order."""


@dataclass(frozen=True)
class RouteGroup:
    """Flows that are routed together, over a fabric of the links that some of them can avoid."""

    flows: Ints
    """(F,) numbers in the problem, ascending."""
    tables: Ints
    """(T,) numbers in the problem, ascending."""
    row: Ints
    """(F,) index into `tables`."""
    fabric: Fabric
    """Candidate k of row t is path `table_start[tables[t]] + k`."""


def hops_of(problem: Problem) -> Hops:
    """Return the hops of a problem's paths."""
    count = np.diff(problem.path_start)
    path = np.repeat(np.arange(len(count)), count)
    paths = np.diff(problem.table_start)
    table = np.repeat(np.arange(len(paths)), paths)[path]
    link, ordered = problem.path_links, bool(problem.ways)
    if ordered:
        number = dict(zip(problem.link_ids, range(problem.link_count), strict=True))
        names = chain.from_iterable(chain.from_iterable(problem.ways))
        said = np.fromiter(map(number.__getitem__, names), np.int64)
        # A path that crosses a link twice is no path of a Clos.
        ordered = len(said) == len(link)
        link = said if ordered else link
    width = max(1, problem.link_count)
    _, at, times = np.unique(table * width + link, return_inverse=True, return_counts=True)
    choice = times[at.reshape(-1)] < paths[table]
    return Hops(problem, link, path, table, choice, ordered)


def route_groups(hops: Hops) -> Iterator[RouteGroup]:
    """Yield the groups, by their first table; flows that have no choice to make, and are on no
    link that others can avoid, are in none."""
    problem = hops.problem
    avoidable = np.zeros(problem.link_count, np.bool_)
    avoidable[hops.link[hops.choice]] = True
    on = avoidable[hops.link]
    tables = len(problem.table_start) - 1
    label = fabrics.connected(tables + problem.link_count, hops.table[on], tables + hops.link[on])[
        :tables
    ]
    there = np.zeros(tables, np.bool_)
    there[hops.table[on]] = True
    flows = np.flatnonzero(there[problem.flow_table])
    of = label[problem.flow_table[flows]]
    order = np.argsort(of, kind="stable")
    starts = np.flatnonzero(np.diff(of[order])) + 1
    for group in np.split(flows[order], starts) if len(flows) else ():
        own, row = np.unique(problem.flow_table[group], return_inverse=True)
        yield RouteGroup(group, own, row.reshape(-1), _fabric(problem, own, avoidable))


def _fabric(problem: Problem, tables: Ints, avoidable: NDArray[np.bool_]) -> Fabric:
    """Return candidates over the avoidable links only, which are numbered anew."""
    count = np.diff(problem.table_start)[tables]
    paths = spans(problem.table_start[tables], problem.table_start[tables] + count)
    first, past = problem.path_start[paths], problem.path_start[paths + 1]
    hop = spans(first, past)
    kept = avoidable[problem.path_links[hop]]
    links, at = np.unique(problem.path_links[hop[kept]], return_inverse=True)
    path = np.repeat(np.arange(len(paths)), past - first)[kept]
    length = np.bincount(path, minlength=len(paths))
    column = places(length)
    own = np.repeat(np.arange(len(tables)), count)
    slot = places(count)
    shape = (len(tables), int(count.max(initial=1)), max(1, int(length.max(initial=1))))
    if shape[0] * shape[1] * shape[2] > fabrics.MAX_CELLS:
        raise ViewError(f"paths: expected at most {fabrics.MAX_CELLS} links of candidates")
    table = np.full(shape, len(links) + 1, np.int64)
    table[own, slot] = len(links)
    table[own[path], slot[path], column] = at.reshape(-1)
    return fabrics.make(problem.capacity[links], table)
