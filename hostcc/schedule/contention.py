"""Which jobs meet on which links: the pairs that orders, levels and paths are about."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hostcc.schedule import sorting
from hostcc.schedule.graph import Contention, spans
from hostcc.schedule.intensity import Crossings, crossings
from hostcc.schedule.problem import Floats, Ints, Problem

MOST_PAIRS = 400_000
"""Pairs looked at.  Where links have more, each job meets only those next to it in turn."""


@dataclass(frozen=True)
class Pairs:
    """Jobs that share a link which jobs can fill, each pair once, one < other."""

    one: Ints
    """(N,)"""
    other: Ints
    one_seconds: Floats
    """(N,) the most that the job puts on any link they share, seconds per iteration."""
    other_seconds: Floats


def pairs(problem: Problem, routing: Ints, most: int = MOST_PAIRS) -> Pairs:
    """The pairs of jobs that meet, on links that can be filled, under a routing (F,)."""
    found = crossings(problem, routing).waiting(problem.job_count)
    return on_links(found.job, found.link, found.seconds, problem.job_count, most)


def on_links(job: Ints, link: Ints, seconds: Floats, jobs: int, most: int = MOST_PAIRS) -> Pairs:
    """The pairs among entries (job, link, seconds), sorted by job within a link."""
    by_link = sorting.order(link)
    job, link, seconds = job[by_link], link[by_link], seconds[by_link]
    ends = np.searchsorted(link, link, side="right")
    here = np.arange(len(job))
    reach = np.minimum(ends, here + 1 + _nearest(ends - here - 1, most))
    first = np.repeat(here, reach - here - 1)
    second = spans(here + 1, reach)
    if not len(first):
        return Pairs(first, second, np.zeros(0), np.zeros(0))
    key = job[first] * max(1, jobs) + job[second]
    by_pair = sorting.order(key)
    key = key[by_pair]
    starts = np.flatnonzero(np.append(True, key[1:] != key[:-1]))
    one, other = np.divmod(key[starts], max(1, jobs))
    return Pairs(
        one,
        other,
        np.maximum.reduceat(seconds[first[by_pair]], starts),
        np.maximum.reduceat(seconds[second[by_pair]], starts),
    )


def _nearest(following: Ints, most: int) -> int:
    """How many of those that follow each entry to pair it with, so that `most` is kept."""
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


def graph(found: Pairs, rank: Ints, worth: Floats) -> Contention:
    """The contention graph of ranks (J,): an edge is worth the `worth` (J,) of who goes first."""
    ahead = rank[found.one] < rank[found.other]
    first = np.where(ahead, found.one, found.other)
    second = np.where(ahead, found.other, found.one)
    return Contention.ranked(rank, first, second, worth[first])


def nearest(found: Crossings, rank: Ints, worth: Floats, most: int) -> Contention:
    """The contention graph of very many pairs: on each link only jobs that are next to each
    other in rank, so many that at most `most` pairs are looked at, one neighbour at least.

    Levels that respect it respect all pairs, because neighbours are linked to neighbours.
    """
    by_rank = sorting.order(rank[found.job])
    place = rank[found.job][by_rank]
    near = on_links(place, found.link[by_rank], found.seconds[by_rank], len(rank), most)
    named = np.argsort(rank, kind="stable")
    first, second = named[near.one], named[near.other]
    return Contention.ranked(rank, first, second, worth[first])
