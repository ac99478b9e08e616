"""No flow shares a link while one of its paths is free: a last look at a routing.  Pure.

The scheduler predicts losses from averages and from an order of service.  By those, two jobs
that send half of the time can share a link for nothing, and flows stay where they are when links
are offered more than they carry.  A path that nobody else uses is better than any prediction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hostcc.schedule.problem import Floats, Ints, Problem

MOST = 4096
"""Flows that are looked at in one plan."""


def apart(problem: Problem, routing: Ints) -> dict[int, int]:
    """Flow -> the free path that it takes, of those that share a link under `routing` (F,).

    A path is free when no other flow is on a link of it that the flow could avoid, and none of
    its links is slower than the slowest that the flow has.  Of two that meet the one moves that
    moves anyhow, else the later by name: by importance it would be another one in the next plan,
    while the first is still on its way.
    """
    ways = _ways(problem)
    load = _load(ways, routing, problem.link_count)
    crowded = [flow for flow in range(len(routing)) if (load[ways.of(routing[flow])] > 1).any()]
    settled = problem.flow_path == routing
    crowded.sort(key=lambda flow: (settled[flow], -flow))
    moved: dict[int, int] = {}
    for flow in crowded[:MOST]:
        here = ways.of(routing[flow])
        if not (load[here] > 1).any():
            continue
        load[here] -= 1
        table = problem.flow_table[flow]
        first, last = problem.table_start[table : table + 2].tolist()
        slowest = ways.slowest[first:last]
        free = ways.others(first, last, load) == 0
        free &= slowest >= ways.slowest[routing[flow]]
        found = int(routing[flow])
        if free.any():
            found = moved[flow] = first + int(np.flatnonzero(free)[0])
        load[ways.of(found)] += 1
    return moved


@dataclass(frozen=True)
class _Ways:
    """Links of every path that its flows could avoid: not those that all paths of its table have,
    as the host's own."""

    start: Ints
    """(P + 1,)"""
    link: Ints
    slowest: Floats
    """(P,) capacity of the slowest link of a path, bytes/s."""

    def of(self, path: int) -> Ints:
        """The links of a path."""
        return self.link[self.start[path] : self.start[path + 1]]

    def others(self, first: int, last: int, load: Ints) -> Ints:
        """Links with flows on them, of each path from `first` to `last`."""
        span = slice(self.start[first], self.start[last])
        path = np.repeat(np.arange(last - first), np.diff(self.start[first : last + 1]))
        return np.bincount(path[load[self.link[span]] > 0], minlength=last - first)


def _ways(problem: Problem) -> _Ways:
    paths = len(problem.path_ids)
    path = np.repeat(np.arange(paths), np.diff(problem.path_start))
    table = np.searchsorted(problem.table_start, path, side="right") - 1
    key = table * max(1, problem.link_count) + problem.path_links
    _, where, count = np.unique(key, return_inverse=True, return_counts=True)
    avoidable = count[where.reshape(-1)] < np.diff(problem.table_start)[table]
    slowest = np.full(paths, np.inf)
    np.minimum.at(slowest, path, problem.capacity[problem.path_links])
    start = np.append(0, np.cumsum(np.bincount(path[avoidable], minlength=paths)))
    return _Ways(start.astype(np.int64), problem.path_links[avoidable], slowest)


def _load(ways: _Ways, routing: Sequence[int] | NDArray[np.int64], links: int) -> Ints:
    """(L,) flows on each link, counted where they could avoid it."""
    load = np.zeros(links, np.int64)
    for path in routing:
        load[ways.of(int(path))] += 1
    return load
