"""Finds the pairs of jobs that meet on links: the basis of orders, levels and paths."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hostcc.schedule import sorting
from hostcc.schedule.contention_graph import ContentionGraph, spans
from hostcc.schedule.intensity import Crossings, crossings
from hostcc.schedule.problem import Floats, Ints, Problem

MAX_PAIRS = 400_000
"""Pairs that are considered; if links have more, each job is paired with its next neighbours only.
"""
PAIRS_AT_ONCE = 16_384
"""Pairs that are looked at together, before those of one pair of jobs become one."""


@dataclass(frozen=True)
class Pairs:
    """Pairs of jobs that share a link which jobs can fill, each once, with one < other."""

    one: Ints
    """(N,)"""
    other: Ints
    one_seconds: Floats
    """(N,) seconds per iteration that the job needs on the shared link where it needs most."""
    other_seconds: Floats

    def only(self, some: Ints) -> Pairs:
        """Return some of the pairs."""
        return Pairs(
            self.one[some], self.other[some], self.one_seconds[some], self.other_seconds[some]
        )


def pairs(problem: Problem, routing: Ints, most: int = MAX_PAIRS) -> Pairs:
    """Return the pairs of jobs that meet on links that can be filled, under a routing (F,)."""
    found = crossings(problem, routing).contended(problem.job_count)
    return pairs_on_links(found.job, found.link, found.seconds, problem.job_count, most)


def pairs_on_links(
    job: Ints, link: Ints, seconds: Floats, jobs: int, most: int = MAX_PAIRS
) -> Pairs:
    """Return the pairs among entries (job, link, seconds), sorted by job within a link."""
    by_link = sorting.order(link)
    job, link, seconds = job[by_link], link[by_link], seconds[by_link]
    ends = np.searchsorted(link, link, side="right")
    here = np.arange(len(job))
    count = np.minimum(ends - here - 1, _nearest(ends - here - 1, most))
    # Jobs in blocks: so less memory is needed at once, and it stays in the processor's cache.
    block = np.bincount(job, count, jobs).cumsum()[job] // PAIRS_AT_ONCE
    parts: list[list[Any]] = [[np.zeros(0, of)] for of in (np.int64, np.int64, float, float)]
    for number in sorting.distinct(block[count > 0]).tolist():
        some = np.flatnonzero((block == number) & (count > 0))
        first = np.repeat(some, count[some])
        second = spans(some + 1, some + 1 + count[some])
        key = job[first] * max(1, jobs) + job[second]
        by_pair = sorting.order(key)
        key = key[by_pair]
        starts = np.flatnonzero(np.append(True, key[1:] != key[:-1]))
        one, other = np.divmod(key[starts], max(1, jobs))
        slowest = (np.maximum.reduceat(seconds[at[by_pair]], starts) for at in (first, second))
        for part, values in zip(parts, (one, other, *slowest), strict=True):
            part.append(values)
    return Pairs(*map(_joined, parts))


def _joined(parts: list[Any]) -> Any:
    """Return arrays as one, and empty the list: all parts beside all columns take megabytes."""
    found = np.concatenate(parts)
    parts.clear()
    return found


def _nearest(following: Ints, most: int) -> int:
    """Return with how many of its successors to pair each entry, so that at most `most` pairs
    result."""
    if int(following.sum()) <= most:
        return int(following.max(initial=0))
    low, high = 1, int(following.max())
    while low < high:
        middle = (low + high + 1) // 2
        if int(np.minimum(following, middle).sum()) <= most:
            low = middle
        else:
            high = middle - 1
    return low


def graph(found: Pairs, rank: Ints, worth: Floats) -> ContentionGraph:
    """Return the contention graph of ranks (J,); an edge weighs the `worth` (J,) of the job that
    goes first."""
    ahead = rank[found.one] < rank[found.other]
    first = np.where(ahead, found.one, found.other)
    second = np.where(ahead, found.other, found.one)
    return ContentionGraph.ranked(rank, first, second, worth[first])


def nearest(found: Crossings, rank: Ints, worth: Floats, most: int) -> ContentionGraph:
    """Return the contention graph for very many pairs: only jobs close in rank on a link are
    paired.

    Considers at most `most` pairs, but at least one neighbour each. Levels that respect it respect
    all pairs, because neighbours are linked to neighbours.
    """
    by_rank = sorting.order(rank[found.job])
    place = rank[found.job][by_rank]
    near = pairs_on_links(place, found.link[by_rank], found.seconds[by_rank], len(rank), most)
    named = np.argsort(rank, kind="stable")
    first, second = named[near.one], named[near.other]
    return ContentionGraph.ranked(rank, first, second, worth[first])
