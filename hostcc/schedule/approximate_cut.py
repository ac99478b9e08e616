"""Approximates the maximum K-cut for very many contending pairs: works on links, not on pairs.

On a link levels do not fall with rank. So of all jobs above it only the next one bounds a job, and
jobs of equal level are neighbours. Three steps, each linear in the number of (job, link) entries:

1. Every job gets a place in 0 .. 1: the longest chain of jobs above it, relative to the longest
chain through it. Then few jobs on a link of their own use all levels. Places are smoothed towards
the middle between neighbours. A job that goes first never has a later place.

2. Levels are blocks of places: the best by dynamic programming, as in Crux's Algorithm 1
(SIGCOMM'24, section 4.3), over PLACE_PARTS parts of the places.

3. All jobs at once move down to where each loses least if the others stay, then all move up. As
nobody passes the present level of a neighbour, and all move one way, nobody passes a neighbour.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from hostcc.schedule import sorting
from hostcc.schedule.contention_graph import integer_weights
from hostcc.schedule.intensity import Crossings
from hostcc.schedule.job_pairs import Pairs
from hostcc.schedule.problem import Floats, Ints

Number = TypeVar("Number", np.int64, np.float64)

PLACE_PARTS = 128
"""Parts of the places at whose borders a level may end."""
MAX_SAMPLED_PAIRS = 100_000
"""Pairs by which the blocks are chosen; of more, an evenly spaced sample."""
SMOOTHING_ROUNDS = 2
"""Times that jobs move to the middle between their neighbours."""
MOVE_ROUNDS = 3
"""Times that jobs change levels, down and then up."""


def approximate_levels(
    found: Crossings, met: Pairs, rank: Ints, worth: Floats, levels: int
) -> Ints:
    """Return levels (J,) in 0 .. `levels` - 1 that respect the ranks (J,) on every link.

    A pair of jobs on different levels counts the `worth` (J,) of the one that goes first, once for
    each shared link. `met`: all pairs that meet.
    """
    if not len(found.job):
        return np.zeros(len(rank), np.int64)
    links = _Links(found, rank, worth)
    place = links.smoothed(links.places())
    level = _blocks(_positions(place, rank), met, rank, worth, levels)
    for _ in range(MOVE_ROUNDS):
        level = np.maximum(level, links.goals(level, levels))
        level = np.minimum(level, links.goals(level, levels))
    return level


class _Links:
    """N entries (job, link) of M jobs that are on any link.

    Arrays are in the order of the crossings, by job, unless they are said to be by link, then rank.
    """

    def __init__(self, found: Crossings, rank: Ints, worth: Floats) -> None:
        self.rank, self.link, jobs = rank, found.link, len(rank)
        count = len(found.job)
        by = sorting.order(found.link * max(1, jobs) + rank[found.job])
        self.job, link = found.job[by], found.link[by]
        self.first = np.ones(count, np.bool_)
        """(N,) by link: whether no job is above on the link."""
        np.not_equal(link[1:], link[:-1], out=self.first[1:])
        last = np.append(self.first[1:], np.True_)
        at = np.empty(count, np.int64)
        at[by] = np.arange(count)
        self.previous, self.next = np.maximum(at - 1, 0), np.minimum(at + 1, count - 1)
        """(N,) places by link of the neighbours on the link."""
        self.has_above, self.has_below = ~self.first[at], ~last[at]
        self.above = np.where(self.has_above, self.job[self.previous], jobs)
        """(N,) neighbours on the link; J: nobody above, J + 1: nobody below."""
        self.below = np.where(self.has_below, self.job[self.next], jobs + 1)
        """(N,) who is next on the link; J: nobody above, J + 1: nobody below."""
        self.starts = np.flatnonzero(np.diff(found.job, prepend=-1))
        self.on = found.job[self.starts]
        """(M,) jobs."""
        self.owner = np.repeat(np.arange(len(self.on)), np.diff(np.append(self.starts, count)))
        """(N,) which of the M jobs each entry belongs to."""
        value = integer_weights(worth)
        self.worth = value[self.on]
        own = value[self.job]
        self.total = np.cumsum(own) - own
        """(N,) by link: summed worth of all entries before it."""
        self.before = self.total[at]

    def places(self) -> Floats:
        """Return (J,) places from 0 to 1; one half for jobs that meet nobody."""
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
        """Return places with each job moved to the middle between its neighbours."""
        for _ in range(SMOOTHING_ROUNDS):
            above, below = self.beside(place, 0.0, 1.0)
            place = place.copy()
            place[self.on] = np.maximum.reduceat(above, self.starts)
            place[self.on] += np.minimum.reduceat(below, self.starts)
            place[self.on] /= 2
        return place

    def goals(self, level: Ints, levels: int) -> Ints:
        """Return (J,) the level at which each job loses least if the others stay."""
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
        """Return (N,) the values of the neighbours above and below; `least`, `most` where there is
        none."""
        every = np.concatenate([what, np.array([least, most], what.dtype)])
        return every[self.above], every[self.below]


def _depths(lists: Iterable[list[int]], links: int) -> list[int]:
    """Return for each job in turn, given its links, the length of the longest chain before it."""
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
    """Return (J,) jobs numbered by place, ties by rank."""
    by = np.lexsort((rank, place))
    position = np.empty(len(rank), np.int64)
    position[by] = np.arange(len(rank))
    return position


def _blocks(position: Ints, met: Pairs, rank: Ints, worth: Floats, levels: int) -> Ints:
    """Return (J,) the levels that do not fall with position and separate pairs of the greatest
    worth."""
    part = position * PLACE_PARTS // max(1, len(position))
    step = -(-len(met.one) // MAX_SAMPLED_PAIRS)
    one, other = met.one[:: max(1, step)], met.other[:: max(1, step)]
    ahead = rank[one] < rank[other]
    first, second = np.where(ahead, one, other), np.where(ahead, other, one)
    cell = part[first] * PLACE_PARTS + part[second]
    value = integer_weights(worth)[first].astype(np.float64)
    # Sums over the pairs up to a part on either side; integers, so they are exact.
    total = np.zeros((PLACE_PARTS + 1, PLACE_PARTS + 1))
    grid = np.bincount(cell, value, PLACE_PARTS * PLACE_PARTS).reshape(PLACE_PARTS, PLACE_PARTS)
    np.cumsum(np.cumsum(grid, axis=0), axis=1, out=total[1:, 1:])
    corner = total.diagonal()
    # [last, first]: worth of the pairs within parts first .. last - 1.
    inner = corner[:, None] - total - total.T + corner
    inner[np.triu_indices(PLACE_PARTS + 1, 1)] = np.inf
    lost, choice = inner[:, 0], []
    for _ in range(1, levels):
        every = lost + inner
        choice.append(every.argmin(axis=1))
        lost = every.min(axis=1)
    of_part = np.zeros(PLACE_PARTS, np.int64)
    end = PLACE_PARTS
    for level in range(levels - 1, 0, -1):
        begin = int(choice[level - 1][end])
        of_part[begin:end] = level
        end = begin
    return of_part[part]
