"""Maps an order of many jobs to few priority levels.

Crux's Algorithm 1 (SIGCOMM'24, section 4.3), balanced levels as in Varys, and Sincronia's: a level
each for the first jobs, and the last one for the rest. The exact K-cut is in kcut.py. All take the
contention graph and a number of levels, and return levels that respect the graph.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hostcc.schedule import kcut
from hostcc.schedule.contention_graph import ContentionGraph
from hostcc.schedule.errors import OptionsError
from hostcc.schedule.problem import Floats, Ints

Compress = Callable[[ContentionGraph, Ints, int], Ints]
"""(graph, rank (J,), levels) -> levels (J,)."""

TRIED_ORDERS = 10
"""Topological orders tried: m of Algorithm 1."""


def exact(graph: ContentionGraph, rank: Ints, levels: int) -> Ints:  # noqa: ARG001
    """Return the levels of the maximum K-cut."""
    return kcut.exact(graph, levels)


def algorithm1(graph: ContentionGraph, rank: Ints, levels: int, orders: int = TRIED_ORDERS) -> Ints:
    """Return the best cut along any of `orders` topological orders (Crux's Algorithm 1).

    Corrected: prefix sums up to n, empty blocks allowed, and Kahn's order with a random ready job.
    The paper's layered BFS cannot produce every order. The "random" choice is a fixed sequence, the
    same on every host; the first order is that of the ranks.
    """
    best, cut = np.zeros(graph.jobs, np.int64), -1
    for index in range(orders):
        order = np.argsort(rank, kind="stable") if index == 0 else _kahn(graph, index)
        found = cut_along(graph, order, levels)
        value = graph.cut(found)
        if value > cut:
            best, cut = found, value
    return best


def cut_along(graph: ContentionGraph, order: Ints, levels: int) -> Ints:
    """Return the best levels (J,) that do not fall along `order` (J,), by dynamic programming.

    inner(i, j) is the weight of the edges within order[i:j]; each of the K blocks loses its own.
    O(K n^2) time, in vectors.
    """
    jobs = graph.jobs
    place = np.empty(jobs, np.int64)
    place[order] = np.arange(jobs)
    inner = _inner(graph, place)
    lost = inner[0].copy()
    choice = []
    for _ in range(1, min(levels, max(1, jobs))):
        total = lost[:, None] + inner
        choice.append(np.argmin(total, axis=0))
        lost = total.min(axis=0)
    found = np.zeros(jobs, np.int64)
    end = jobs
    for level in range(len(choice), 0, -1):
        begin = int(choice[level - 1][end])
        found[order[begin:end]] = level
        end = begin
    return found


def _inner(graph: ContentionGraph, place: Ints) -> Floats:
    """Return (n + 1, n + 1) weights of the edges within places i .. j - 1; inf where j < i."""
    jobs = graph.jobs
    grid = np.zeros((jobs + 1, jobs + 1))
    np.add.at(grid, (place[graph.first], place[graph.second] + 1), graph.weight)
    inner = np.cumsum(np.cumsum(grid[::-1], axis=0)[::-1], axis=1)
    inner[np.tril_indices(jobs + 1, -1)] = np.inf
    return inner


def balanced(graph: ContentionGraph, rank: Ints, levels: int) -> Ints:
    """Return levels with equally many jobs each, by rank (as Varys uses its queues)."""
    return rank * min(levels, max(1, graph.jobs)) // max(1, graph.jobs)


def sincronia(graph: ContentionGraph, rank: Ints, levels: int) -> Ints:  # noqa: ARG001
    """Return a level each for the first jobs, the last for all others (Sincronia, section 4)."""
    return np.minimum(rank, levels - 1)


METHODS: dict[str, Compress] = {
    "exact": exact,
    "algorithm1": algorithm1,
    "balanced": balanced,
    "sincronia": sincronia,
}


def usable_levels(levels: int, reserved: tuple[int, ...]) -> Ints:
    """Return the network's levels that jobs may use, the highest first. Raises OptionsError."""
    if levels < 1:
        raise OptionsError(f"levels: expected at least 1, got {levels}")
    for level in reserved:
        if not 0 <= level < levels:
            raise OptionsError(f"reserved: expected levels from 0 to {levels - 1}, got {level}")
    left = sorted(set(range(levels)) - set(reserved))
    if not left:
        raise OptionsError("reserved: expected a level to be left for jobs, got all of them")
    return np.array(left, np.int64)


def _kahn(graph: ContentionGraph, seed: int) -> Ints:
    """Return a topological order; a fixed pseudo-random sequence picks among the ready jobs."""
    after: list[list[int]] = [[] for _ in range(graph.jobs)]
    for first, second in zip(graph.first.tolist(), graph.second.tolist(), strict=True):
        after[first].append(second)
    waiting = np.bincount(graph.second, minlength=graph.jobs).tolist()
    ready = [job for job in range(graph.jobs) if not waiting[job]]
    state = seed
    order = []
    while ready:
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64  # Knuth's MMIX
        pick = (state >> 33) % len(ready)
        ready[pick], ready[-1] = ready[-1], ready[pick]
        job = ready.pop()
        order.append(job)
        for other in after[job]:
            waiting[other] -= 1
            if not waiting[other]:
                ready.append(other)
    return np.array(order, np.int64)
