"""Final step of a routing: no flow shares a link while one of its paths is free. Pure.

The scheduler predicts losses from averages and from an order of service. By those, two jobs that
each send half of the time can share a link for nothing, and flows stay where they are when links
are overloaded. A path that nobody else uses is better than any prediction.

Flows are considered one by one, since each move frees links and takes others. Only flows that can
find a free path at all are considered; among very many flows these are few or none.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hostcc.schedule.contention_graph import spans
from hostcc.schedule.paths.fabric import links_of
from hostcc.schedule.problem import Floats, Ints, Problem

MAX_FLOWS = 4096
"""Flows that are considered in one plan."""
TABLES_AT_ONCE = 1024
"""Tables whose links are compared together, which takes memory."""
MAX_TRACKED_MOVES = 16
"""Moves after which it is tracked who benefits; after more, all flows are considered."""


def move_to_free_paths(problem: Problem, routing: Ints) -> dict[int, int]:
    """Return flow -> free path, for flows that share a link under `routing` (F,).

    A path is free if no other flow uses any of its avoidable links, and none of its links is slower
    than the slowest on the flow's present path. Of two flows that meet, the one moves that changes
    its path anyway, else the later by name. Choosing by importance would pick another flow in the
    next plan, while this one is still moving.
    """
    if not len(routing):
        return {}
    ways = _avoidable_links(problem)
    load, shared, own = ways.on(routing)
    crowded = np.flatnonzero(shared)
    crowded = crowded[np.lexsort((-crowded, (problem.flow_path == routing)[crowded]))][:MAX_FLOWS]
    # A path is free for a flow only if the flow alone uses its links.
    tables = np.zeros(len(problem.table_start) - 1, np.bool_)
    tables[problem.flow_table[crowded]] = True
    hopeful = ways.least(load, np.flatnonzero(tables))[problem.flow_table] <= own
    if not hopeful[crowded].any():
        return {}
    slowest = _slowest(problem)
    moved: dict[int, int] = {}
    for flow in crowded.tolist():
        here = ways.of(routing[flow])
        if not hopeful[flow] or not (load[here] > 1).any():
            continue
        load[here] -= 1
        table = problem.flow_table[flow]
        first, last = problem.table_start[table : table + 2].tolist()
        free = ways.others(first, last, load) == 0
        free &= slowest[first:last] >= slowest[routing[flow]]
        found = int(routing[flow])
        if free.any():
            found = moved[flow] = first + int(np.flatnonzero(free)[0])
            if len(moved) > MAX_TRACKED_MOVES:
                hopeful[:] = True
            else:
                hopeful |= ways.having(here)[problem.flow_table]
        load[ways.of(found)] += 1
    return moved


@dataclass(frozen=True)
class _AvoidableLinks:
    """Links of every path that its flows could avoid: not all paths of the table share them."""

    start: Ints
    """(P + 1,)"""
    link: Ints
    tables: Ints
    """(T + 1,) index at which each table's paths begin."""
    links: int

    def of(self, path: int) -> Ints:
        """Return the links of a path."""
        return self.link[self.start[path] : self.start[path + 1]]

    def on(self, routing: Ints) -> tuple[Ints, Ints, Ints]:
        """Return flows on each link (L,), and for each flow (F,) its number of shared and unshared
        links."""
        first, last = self.start[routing], self.start[routing + 1]
        link = self.link[spans(first, last)]
        flow = np.arange(len(routing)).repeat(last - first)
        load = np.bincount(link, minlength=self.links)
        shared = np.bincount(flow[load[link] > 1], minlength=len(routing))
        return load, shared, last - first - shared

    def least(self, load: Ints, tables: Ints) -> Ints:
        """Return (T,) the fewest occupied links of any path, for each of some tables."""
        first, past = self.tables[tables], self.tables[tables + 1]
        paths = spans(first, past)
        busy = (load > 0)[self.link[spans(self.start[first], self.start[past])]]
        total = np.zeros(len(busy) + 1, np.int32)
        np.cumsum(busy, out=total[1:])
        hops = np.zeros(len(paths) + 1, np.int64)
        np.cumsum(self.start[paths + 1] - self.start[paths], out=hops[1:])
        count = past - first
        least = np.full(len(self.tables) - 1, self.links)
        if len(paths):
            some = np.flatnonzero(count)
            starts = (count.cumsum() - count)[some]
            least[tables[some]] = np.minimum.reduceat(np.diff(total[hops]), starts)
        return least

    def having(self, links: Ints) -> NDArray[np.bool_]:
        """Return (T,) whether each table contains one of these links."""
        wanted = np.zeros(self.links, np.bool_)
        wanted[links] = True
        total = np.zeros(len(self.link) + 1, np.int64)
        np.cumsum(wanted[self.link], out=total[1:])
        return np.asarray(np.diff(total[self.start[self.tables]]) > 0)

    def others(self, first: int, last: int, load: Ints) -> Ints:
        """Return the number of occupied links of each path from `first` to `last`."""
        span = slice(self.start[first], self.start[last])
        path = np.repeat(np.arange(last - first), np.diff(self.start[first : last + 1]))
        return np.bincount(path[load[self.link[span]] > 0], minlength=last - first)


def _avoidable_links(problem: Problem) -> _AvoidableLinks:
    begun = problem.path_start[problem.table_start]
    some = np.flatnonzero(_maybe_common(problem))
    if not len(some):
        return _AvoidableLinks(
            problem.path_start, problem.path_links, problem.table_start, problem.link_count
        )
    avoidable = np.ones(len(problem.path_links), np.bool_)
    for at in range(0, len(some), TABLES_AT_ONCE):
        tables = some[at : at + TABLES_AT_ONCE]
        where = spans(begun[tables], begun[tables + 1])
        links, paths = problem.path_links[where], np.diff(problem.table_start)[tables]
        table = np.repeat(np.arange(len(tables)), np.diff(begun)[tables])
        # A link that all paths of a table share is on the first one.
        for link in links_of(problem, problem.table_start[tables]).T:
            same = np.flatnonzero(links == link[table])
            every = np.bincount(table[same], minlength=len(tables)) == paths
            avoidable[where[same[every[table[same]]]]] = False
    kept = np.zeros(len(avoidable) + 1, np.int64)
    np.cumsum(avoidable, out=kept[1:])
    return _AvoidableLinks(
        kept[problem.path_start],
        problem.path_links[avoidable],
        problem.table_start,
        problem.link_count,
    )


def _maybe_common(problem: Problem) -> NDArray[np.bool_]:
    """Return (T,) whether a table's first two paths share a link, or it has only one path."""
    paths = np.diff(problem.table_start)
    most = max(0, len(problem.path_ids) - 1)
    first, second = (
        links_of(problem, np.minimum(problem.table_start[:-1] + at, most)) for at in (0, 1)
    )
    meet = np.zeros(len(paths), np.bool_)
    for link in first.T:
        meet |= ((second == link[:, None]) & (link >= 0)[:, None]).any(axis=1)
    return np.asarray((paths == 1) | (meet & (paths > 1)))


def _slowest(problem: Problem) -> Floats:
    """Return (P,) the capacity of the slowest link of each path, bytes/s."""
    slowest = np.full(len(problem.path_ids), np.inf)
    some = np.flatnonzero(np.diff(problem.path_start))
    if len(some):
        capacity = problem.capacity[problem.path_links]
        slowest[some] = np.minimum.reduceat(capacity, problem.path_start[some])
    return slowest
