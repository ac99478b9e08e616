"""A K-cut near the maximum where very many pairs contend: by links, not by pairs.

On a link levels do not fall with rank, so of all jobs above it the one just above bounds a job,
and those that share its level stand next to it.  Three steps, each in so many operations as jobs
are on links:

1. Every job gets a place: the longest chain of jobs above it, as a part of the longest through
   it, so that few jobs on a link of their own use all levels, whatever their ranks are among all;
   twice moved to the middle between its neighbours.  Who goes first has no later place.
2. Levels are blocks of places: the best by dynamic programming, as in Crux's Algorithm 1
   (SIGCOMM'24, section 4.3), over PARTS of the places.
3. All jobs at once go down to where each loses least if the others stay, then all up: as nobody
   passes the present level of a neighbour, and all go one way, nobody passes a neighbour.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from hostcc.schedule import sorting
from hostcc.schedule.contention import Pairs
from hostcc.schedule.graph import whole
from hostcc.schedule.intensity import Crossings
from hostcc.schedule.problem import Floats, Ints

Number = TypeVar("Number", np.int64, np.float64)

PARTS = 128
"""Of the places, between which a level may end."""
SAMPLE = 100_000
"""Pairs that the blocks are chosen for; of more, evenly many."""
SMOOTHED = 2
"""Times that jobs move to the middle between their neighbours."""
ROUNDS = 3
"""Times that jobs change levels, down and up."""


def near(found: Crossings, met: Pairs, rank: Ints, worth: Floats, levels: int) -> Ints:
    """Levels (J,) from 0 to `levels` - 1 that respect the ranks (J,) on every link of `found`.

    A pair of jobs on different levels is worth the `worth` (J,) of who goes first, once for each
    link that they share.  `met`: the pairs.
    """
    if not len(found.job):
        return np.zeros(len(rank), np.int64)
    links = _Links(found, rank, worth)
    place = links.smoothed(links.places())
    level = _blocks(_positions(place, rank), met, rank, worth, levels)
    for _ in range(ROUNDS):
        level = np.maximum(level, links.goals(level, levels))
        level = np.minimum(level, links.goals(level, levels))
    return level


class _Links:
    """N jobs on links; M jobs are on any.  Arrays are by job, as the crossings are, if they do not
    say that they are by link, then rank."""

    def __init__(self, found: Crossings, rank: Ints, worth: Floats) -> None:
        self.rank, self.link, jobs = rank, found.link, len(rank)
        count = len(found.job)
        by = sorting.order(found.link * max(1, jobs) + rank[found.job])
        self.job, link = found.job[by], found.link[by]
        self.first = np.ones(count, np.bool_)
        """(N,) by link: whether nobody is above."""
        np.not_equal(link[1:], link[:-1], out=self.first[1:])
        last = np.append(self.first[1:], np.True_)
        at = np.empty(count, np.int64)
        at[by] = np.arange(count)
        self.previous, self.next = np.maximum(at - 1, 0), np.minimum(at + 1, count - 1)
        """(N,) places by link of those next to each."""
        self.has_above, self.has_below = ~self.first[at], ~last[at]
        self.above = np.where(self.has_above, self.job[self.previous], jobs)
        self.below = np.where(self.has_below, self.job[self.next], jobs + 1)
        """(N,) who is next on the link; J: nobody above, J + 1: nobody below."""
        self.starts = np.flatnonzero(np.diff(found.job, prepend=-1))
        self.on = found.job[self.starts]
        """(M,)"""
        self.owner = np.repeat(np.arange(len(self.on)), np.diff(np.append(self.starts, count)))
        """(N,) which of the M each is of."""
        value = whole(worth)
        self.worth = value[self.on]
        own = value[self.job]
        self.total = np.cumsum(own) - own
        """(N,) by link: worth of all before it."""
        self.before = self.total[at]

    def places(self) -> Floats:
        """(J,) from 0 to 1; one half of jobs that meet nobody."""
        by = np.argsort(self.rank[self.on], kind="stable")
        links = self.link.tolist()
        past = np.append(self.starts[1:], len(links))
        spans = zip(self.starts[by].tolist(), past[by].tolist(), strict=True)
        lists = [links[first:last] for first, last in spans]
        count = int(self.link.max(initial=-1)) + 1
        up = np.array(_depths(lists, count), np.float64)
        down = np.array(_depths(reversed(lists), count), np.float64)[::-1]
        place = np.full(len(self.rank), 0.5)
        place[self.on[by]] = (up + 0.5) / (up + down + 1)
        return place

    def smoothed(self, place: Floats) -> Floats:
        """Each job in the middle between its neighbours."""
        for _ in range(SMOOTHED):
            above, below = self.beside(place, 0.0, 1.0)
            place = place.copy()
            place[self.on] = np.maximum.reduceat(above, self.starts)
            place[self.on] += np.minimum.reduceat(below, self.starts)
            place[self.on] /= 2
        return place

    def goals(self, level: Ints, levels: int) -> Ints:
        """(J,) where each job loses least if the others stay where they are."""
        above, below = self.beside(level, 0, levels - 1)
        least = np.maximum.reduceat(above, self.starts)
        most = np.minimum.reduceat(below, self.starts)
        # Jobs of one level on one link.
        on = level[self.job]
        first = self.first.copy()
        first[1:] |= on[1:] != on[:-1]
        begin = np.flatnonzero(first)
        run = np.cumsum(first) - 1
        end = np.append(begin[1:], len(on))
        over = self.before - self.total[begin][run[self.previous]]
        over *= self.has_above & (above == least[self.owner])
        under = end[run[self.next]] - self.next
        under *= self.has_below & (below == most[self.owner])
        at_least = np.add.reduceat(over, self.starts)
        at_most = np.add.reduceat(under, self.starts) * self.worth
        now = level[self.on]
        goal = np.where(at_least < at_most, least, np.where(at_most < at_least, most, now))
        goal = np.where(most - least >= 2, np.clip(now, least + 1, most - 1), goal)
        found = level.copy()
        found[self.on] = goal
        return found

    def beside(
        self, what: NDArray[Number], least: float, most: float
    ) -> tuple[NDArray[Number], NDArray[Number]]:
        """(N,) what those above and below have; nobody: `least` and `most`."""
        every = np.concatenate([what, np.array([least, most], what.dtype)])
        return every[self.above], every[self.below]


def _depths(lists: Iterable[list[int]], links: int) -> list[int]:
    """For each job in turn, given its links, how many there are in the longest chain before it."""
    deepest = [0] * links
    depths = []
    for own in lists:
        depth = max(map(deepest.__getitem__, own))
        depths.append(depth)
        depth += 1
        for link in own:
            deepest[link] = depth
    return depths


def _positions(place: Floats, rank: Ints) -> Ints:
    """(J,) jobs numbered by place, those of one place by rank."""
    by = np.lexsort((rank, place))
    position = np.empty(len(rank), np.int64)
    position[by] = np.arange(len(rank))
    return position


def _blocks(position: Ints, met: Pairs, rank: Ints, worth: Floats, levels: int) -> Ints:
    """(J,) the levels that do not fall with position and part pairs worth most."""
    part = position * PARTS // max(1, len(position))
    step = -(-len(met.one) // SAMPLE)
    one, other = met.one[:: max(1, step)], met.other[:: max(1, step)]
    ahead = rank[one] < rank[other]
    first, second = np.where(ahead, one, other), np.where(ahead, other, one)
    cell = part[first] * PARTS + part[second]
    value = whole(worth)[first].astype(np.float64)
    # Of the pairs up to a part each; whole numbers, so exact.
    total = np.zeros((PARTS + 1, PARTS + 1))
    grid = np.bincount(cell, value, PARTS * PARTS).reshape(PARTS, PARTS)
    np.cumsum(np.cumsum(grid, axis=0), axis=1, out=total[1:, 1:])
    corner = total.diagonal()
    # [last, first]: worth of the pairs within parts first .. last - 1.
    inner = corner[:, None] - total - total.T + corner
    inner[np.triu_indices(PARTS + 1, 1)] = np.inf
    lost, choice = inner[:, 0], []
    for _ in range(1, levels):
        every = lost + inner
        choice.append(every.argmin(axis=1))
        lost = every.min(axis=1)
    of_part = np.zeros(PARTS, np.int64)
    end = PARTS
    for level in range(levels - 1, 0, -1):
        begin = int(choice[level - 1][end])
        of_part[begin:end] = level
        end = begin
    return of_part[part]
