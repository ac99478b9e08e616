"""hostcc's priority order: all contending jobs count, not one reference job.

The closed form of pairloss.py says what j loses below i, d_ij.  Under an order the rates are
v_j = 1 / (1 + sum over the i above j of d_ij v_i), and what an order is worth is the sum of
worth_j v_j, worth W / T alone (times weights).  Few jobs: every order is tried.  Many: from
the order of intensities, jobs are re-inserted among those they contend with while that helps.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import permutations

import numpy as np

from hostcc.schedule import sorting
from hostcc.schedule.contention import Pairs
from hostcc.schedule.pairloss import Alone, estimate, slowdown
from hostcc.schedule.problem import Floats, Ints

ENUMERATED = 6
"""Jobs up to which every order is tried."""
SWEEPS = 4
"""Times that every job is looked at."""
FOLLOWED = 20_000
"""Losses (two for each pair that meets) that are followed, not estimated."""
LOOKS = 1500
"""Jobs looked at, in all sweeps together."""
GAIN = 1e-9
"""Relative gain below which a move is none."""
OVERLOAD = 1.0
"""Mean load of the links that a job crosses, in seconds of traffic per second, above which the
pairwise model does not tell orders apart: there the order by intensity stays."""


@dataclass(frozen=True)
class Losses:
    """What each of N pairs loses, either way round."""

    one: Ints
    other: Ints
    other_below: Floats
    """(N,) d of `other` below `one`."""
    one_below: Floats
    """(N,) d of `one` below `other`."""


def losses(jobs: Alone, found: Pairs) -> Losses:
    """The pairwise model of the pairs that meet; of very many, the greatest losses are followed
    and the others estimated."""
    upper = np.concatenate([found.one, found.other])
    lower = np.concatenate([found.other, found.one])
    up = np.concatenate([found.one_seconds, found.other_seconds])
    down = np.concatenate([found.other_seconds, found.one_seconds])
    phases = 8 if len(up) <= 4000 else 4
    if len(up) <= FOLLOWED:
        loss = slowdown(jobs, upper, lower, up, down, phases)
    else:
        loss = estimate(jobs, upper, lower, up, down)
        some = loss[loss > 0]  # partition() is slow where very many are equal
        last = len(some) - FOLLOWED
        most = loss > (np.partition(some, last)[last] if last > 0 else 0.0)
        loss[most] = slowdown(jobs, upper[most], lower[most], up[most], down[most], phases)
    half = len(found.one)
    return Losses(found.one, found.other, loss[:half], loss[half:])


@cache
def all_orders(jobs: int) -> Ints:
    """(jobs!, jobs) every order: the job at each rank.  Do not write to it."""
    return np.array(list(permutations(range(jobs))), np.int64).reshape(-1, jobs)


def matrix(jobs: int, found: Losses) -> Floats:
    """(J, J): entry [i, j] is d of j below i; 0 where they do not meet."""
    table = np.zeros((jobs, jobs))
    table[found.one, found.other] = found.other_below
    table[found.other, found.one] = found.one_below
    return table


def rates(table: Floats, orders: Ints) -> Floats:
    """(..., N, J) v of every job, by job, for N orders (N, J); `table` (..., J, J)."""
    count, jobs = orders.shape
    found = np.zeros((*table.shape[:-2], count, jobs))
    for rank in range(jobs):
        job = orders[:, rank]
        below = np.zeros((*table.shape[:-2], count))
        for above in range(rank):
            upper = orders[:, above]
            below += table[..., upper, job] * found[..., np.arange(count), upper]
        found[..., np.arange(count), job] = 1 / (1 + below)
    return found


def best(jobs: int, found: Losses, worth: Floats, start: Ints) -> Ints:
    """Ranks (J,) of the best order that is found; `start` (J,) are the ranks to begin with."""
    if not jobs:
        return start
    if jobs <= ENUMERATED:
        orders = all_orders(jobs)
        value = (rates(matrix(jobs, found), orders) * worth).sum(axis=-1)
        # Among equals the order closest to the start, then the first.
        steady = (start[orders] * np.arange(jobs)[::-1]).sum(axis=1)
        top = np.flatnonzero(value >= value.max() * (1 - GAIN))
        order = orders[top[np.argmin(steady[top])]]
        rank = np.empty(jobs, np.int64)
        rank[order] = np.arange(jobs)
        return rank
    return _Search(jobs, found, worth, start).run()


class _Search:
    """Re-insertion: one job at a time moves to the best place among those it contends with.

    A move is judged with the rates of the others as they are: below i, j loses about
    worth_j v_j^2 d_ij v_i.  Positions are real numbers between the neighbours'.
    """

    def __init__(self, jobs: int, found: Losses, worth: Floats, start: Ints) -> None:
        self.jobs, self.worth = jobs, worth
        one = np.concatenate([found.one, found.other])
        other = np.concatenate([found.other, found.one])
        by = sorting.order(one)
        self.one, self.other = one[by], other[by]
        self.below = np.concatenate([found.one_below, found.other_below])[by]
        """d of `one` below `other`."""
        self.above = np.concatenate([found.other_below, found.one_below])[by]
        self.starts = np.searchsorted(self.one, np.arange(jobs + 1)).tolist()
        self.position = start.astype(np.float64)
        self.looks = LOOKS

    def run(self) -> Ints:
        best_value, best_rank = -1.0, self._rank()
        for _ in range(SWEEPS):
            speed = self._speeds()
            value = float((speed * self.worth).sum())
            if value <= best_value * (1 + GAIN):
                break
            best_value, best_rank = value, self._rank()
            if not self._sweep(speed):
                break
            self.position = self._rank().astype(np.float64)
        else:
            if float((self._speeds() * self.worth).sum()) > best_value:
                best_rank = self._rank()
        return best_rank

    def _rank(self) -> Ints:
        rank = np.empty(self.jobs, np.int64)
        rank[np.argsort(self.position, kind="stable")] = np.arange(self.jobs)
        return rank

    def _speeds(self) -> Floats:
        """v in fixed-point rounds: exact after the longest chain's length, near it long before."""
        speed = np.ones(self.jobs)
        under = self.position[self.other] < self.position[self.one]
        one, other, loss = self.one[under], self.other[under], self.below[under]
        for _ in range(24):
            fresh = 1 / (1 + np.bincount(one, loss * speed[other], self.jobs))
            if np.abs(fresh - speed).max(initial=0.0) < 1e-6:
                break
            speed = fresh
        return speed

    def _sweep(self, speed: Floats) -> bool:
        """One look at every job that would gain by changing places with somebody."""
        # Cost of being below and of being above, per entry (one, other).
        v, u = speed[self.one], speed[self.other]
        value, theirs = self.worth[self.one], self.worth[self.other]
        down = value * v * v * self.below * u
        up = theirs * u * u * self.above * v
        under = self.position[self.other] < self.position[self.one]
        wrong = np.maximum(np.where(under, down - up, up - down), 0.0)
        # The most promising first; the others of a very large cluster stay where they are.
        hope = np.bincount(self.one, wrong, self.jobs)
        candidates = np.argsort(-hope, kind="stable")[: min(self.looks, int((hope > 0).sum()))]
        self.looks -= len(candidates)
        change = up - down
        moved = False
        for job in candidates.tolist():
            own = slice(self.starts[job], self.starts[job + 1])
            moved |= _insert(job, self.other[own], change[own], self.position)
        return moved


def _insert(job: int, others: Ints, change: Floats, position: Floats) -> bool:
    """Move `job` to its best place; `change[k]`: what is added when others[k] goes below it."""
    line = position[others]
    by = line.argsort(kind="stable")
    line = line[by]
    # Cost relative to standing before all others: passing one saves its change.
    passed = np.zeros(len(by) + 1)
    np.cumsum(change[by], out=passed[1:])
    cut = int(passed.argmax())
    least, now = -float(passed[cut]), -float(passed[line.searchsorted(position[job])])
    if least >= now - GAIN * max(abs(now), abs(least)):
        return False
    before = line[cut - 1] if cut else line[0] - 2.0
    after = line[cut] if cut < len(line) else line[-1] + 2.0
    position[job] = (before + after) / 2
    return True
