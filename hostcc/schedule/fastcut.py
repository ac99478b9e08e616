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
    links = _Links(found, rank)
    place = links.smoothed(links.places())
    level = _blocks(_positions(place, rank), met, rank, worth, levels)
    value = whole(worth)
    for _ in range(ROUNDS):
        level = np.maximum(level, links.goals(level, value, levels))
        level = np.minimum(level, links.goals(level, value, levels))
    return level


class _Links:
    """N jobs on links, by link, then rank; M jobs are on any."""

    def __init__(self, found: Crossings, rank: Ints) -> None:
        self.rank, jobs = rank, len(rank)
        by = sorting.order(found.link * max(1, jobs) + rank[found.job])
        self.job, link = found.job[by], found.link[by]
        self.first = np.ones(len(by), np.bool_)
        np.not_equal(link[1:], link[:-1], out=self.first[1:])
        self.last = np.append(self.first[1:], np.True_)[: len(by)]
        # The same by job, as they are found.
        self.at = np.empty(len(by), np.int64)
        self.at[by] = np.arange(len(by))
        self.starts = np.flatnonzero(np.diff(found.job, prepend=-1))
        self.on = found.job[self.starts]
        self.owner = np.repeat(
            np.arange(len(self.on)), np.diff(np.append(self.starts, len(self.at)))
        )
        self.link = found.link
        above = np.where(self.first, jobs, np.roll(self.job, 1))
        below = np.where(self.last, jobs + 1, np.roll(self.job, -1))
        self.above, self.below = above[self.at], below[self.at]
        """(N,) by job, who is next on the link; J: nobody above, J + 1: nobody below."""

    def places(self) -> Floats:
        """(J,) from 0 to 1; one half of jobs that meet nobody."""
        by = np.argsort(self.rank[self.on], kind="stable")
        links = self.link.tolist()
        ends = np.append(self.starts, len(links))
        spans = zip(ends[:-1][by].tolist(), ends[1:][by].tolist(), strict=True)
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
            least, most = self.bounds(place, 0.0, 1.0)
            place = place.copy()
            place[self.on] = (least + most) / 2
        return place

    def bounds(
        self, what: NDArray[Number], least: float, most: float
    ) -> tuple[NDArray[Number], NDArray[Number]]:
        """(M,) the greatest of the neighbours above, the least of those below; of nobody, `least`
        and `most`."""
        every = np.concatenate([what, np.array([least, most], what.dtype)])
        return (
            np.maximum.reduceat(every[self.above], self.starts),
            np.minimum.reduceat(every[self.below], self.starts),
        )

    def goals(self, level: Ints, worth: Ints, levels: int) -> Ints:
        """(J,) where each job loses least if the others stay where they are."""
        least, most = self.bounds(level, 0, levels - 1)
        # Jobs of one level on one link.
        on = level[self.job]
        first = self.first.copy()
        first[1:] |= on[1:] != on[:-1]
        begin = np.flatnonzero(first)
        run = np.cumsum(first) - 1
        end = np.append(begin[1:], len(on))
        total = np.append(0, np.cumsum(worth[self.job]))
        here = self.at
        before = np.maximum(here - 1, 0)
        behind = np.minimum(here + 1, len(on) - 1)
        over = total[here] - total[begin[run[before]]]
        over *= ~self.first[here] & (on[before] == least[self.owner])
        under = end[run[behind]] - here - 1
        under *= ~self.last[here] & (on[behind] == most[self.owner])
        at_least = np.add.reduceat(over, self.starts)
        at_most = np.add.reduceat(under, self.starts) * worth[self.on]
        now = level[self.on]
        goal = np.where(at_least < at_most, least, np.where(at_most < at_least, most, now))
        goal = np.where(most - least >= 2, np.clip(now, least + 1, most - 1), goal)
        found = level.copy()
        found[self.on] = goal
        return found


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
