"""Reduces a routing to as few rows as a fluid simulation needs.

Only links shared by several jobs' flows matter: any other link is a cap on its flows. Equal flows
of a job that cross the same shared links stay equal for ever, so they become one row.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from hostcc.schedule.problem import Floats, Ints, Problem

Key = tuple[int, tuple[int, ...], float, float]


@dataclass(frozen=True)
class SimulationRows:
    """J jobs with up to W rows each, on C contended links; missing rows have no bytes."""

    size: Floats
    """(J, W) bytes."""
    cap: Floats
    """(J, W) bytes/s, the highest rate of a row."""
    weight: Floats
    """(J, W) number of flows in the row."""
    links: Ints
    """(J, W, H) indices into capacity, -1: none."""
    capacity: Floats
    """(C,) bytes/s."""


@dataclass
class _Row:
    job: int
    size: float
    cap: float
    weight: float
    links: list[int]


def expected_events(shortest: Floats, rows: Ints, seconds: float) -> float:
    """Return the starts and ends of phases and flows within a window.

    `shortest` (J,): seconds of an iteration alone, on the quickest paths; `rows` (J,): flows that
    end at moments of their own.
    """
    each = 2 + 2 * rows
    return float((each * (seconds / shortest)).sum())


def quickest_paths(problem: Problem) -> Ints:
    """Return the routing (F,) on which each flow is quickest alone: the first of such paths."""
    slowest_link = np.full(len(problem.path_start) - 1, np.inf)
    path = np.repeat(np.arange(len(slowest_link)), np.diff(problem.path_start))
    np.minimum.at(slowest_link, path, problem.capacity[problem.path_links])
    best = np.zeros(len(problem.table_start) - 1, np.int64)
    for table in np.unique(problem.flow_table).tolist():
        first, past = problem.table_start[table : table + 2].tolist()
        best[table] = first + int(slowest_link[first:past].argmax())
    return best[problem.flow_table]


def reduce_flows(
    jobs: int,
    flow_job: Sequence[int],
    flow_bytes: Sequence[float],
    flow_links: Sequence[Iterable[int]],
    capacity: Sequence[float],
) -> SimulationRows:
    """Return the rows of flows (bytes > 0) on their links; flows without links take no time."""
    crossing = Counter(link for links in flow_links for link in links)
    merged: dict[Key, int] = Counter()
    for job, size, links in zip(flow_job, flow_bytes, flow_links, strict=True):
        hops = tuple(links)
        if hops and size > 0:
            shared = tuple(sorted(link for link in hops if crossing[link] > 1))
            merged[job, shared, size, min(capacity[link] for link in hops)] += 1
    rows = [
        _Row(job, size * count, cap * count, float(count), list(links))
        for (job, links, size, cap), count in sorted(merged.items())
    ]
    return _arrays(jobs, _without_private_links(rows, capacity), capacity)


def _without_private_links(rows: list[_Row], capacity: Sequence[float]) -> list[_Row]:
    crossing = Counter(link for row in rows for link in row.links)
    alone: dict[int, float] = defaultdict(float)
    shared = []
    for row in rows:
        row.cap = min([row.cap, *(capacity[link] for link in row.links if crossing[link] == 1)])
        row.links = [link for link in row.links if crossing[link] > 1]
        if row.links:
            shared.append(row)
        else:
            alone[row.job] = max(alone[row.job], row.size / row.cap)
    return [*(_Row(job, time, 1.0, 1.0, []) for job, time in sorted(alone.items())), *shared]


def _arrays(jobs: int, rows: Sequence[_Row], capacity: Sequence[float]) -> SimulationRows:
    used = sorted({link for row in rows for link in row.links})
    place = {link: index for index, link in enumerate(used)}
    per_job: list[list[_Row]] = [[] for _ in range(jobs)]
    for row in rows:
        per_job[row.job].append(row)
    width = max([1, *map(len, per_job)])
    hops = max([1, *(len(row.links) for row in rows)])
    size, cap, weight = np.zeros((jobs, width)), np.ones((jobs, width)), np.ones((jobs, width))
    links = np.full((jobs, width, hops), -1, np.int64)
    for job, own in enumerate(per_job):
        for index, row in enumerate(own):
            size[job, index], cap[job, index], weight[job, index] = row.size, row.cap, row.weight
            links[job, index, : len(row.links)] = [place[link] for link in row.links]
    return SimulationRows(
        size, cap, weight, links, np.array([capacity[link] for link in used], np.float64)
    )
