"""hostcc's priority order: all contending jobs count, not one reference job.

The closed form of pairloss.py says what j loses below i, d_ij.  Under an order the rates are
v_j = 1 / (1 + sum over the i above j of d_ij v_i), and what an order is worth is the sum of
worth_j v_j, worth W / T alone (times weights).  Few jobs: every order is tried.  Many: from
the order of intensities, jobs are re-inserted among those they contend with (insertion.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import permutations

import numpy as np

from hostcc.schedule.contention import Pairs
from hostcc.schedule.insertion import GAIN, Search
from hostcc.schedule.pairloss import PHASES, Alone, estimate, slowdown
from hostcc.schedule.problem import Floats, Ints

ENUMERATED = 6
"""Jobs up to which every order is tried."""
FEW = 4000
"""Losses up to which they are followed from PHASES starting points, beyond from MANY_PHASES."""
MANY_PHASES = 4
FOLLOWED = 20_000
"""Losses (two for each pair that meets) that are followed, not estimated."""
OVERLOAD = 1.0
"""Mean load of the links that a job crosses, in seconds of traffic per second, above which the
pairwise model does not tell orders apart: there the order by intensity stays."""


@dataclass(frozen=True)
class KnownLosses:
    """What is known of 2 N losses, first of `other` below `one`, then of `one` below `other`."""

    rough: Floats
    """As estimated; NaN: not yet."""
    exact: Floats
    """As followed from MANY_PHASES; NaN: not yet."""


@dataclass(frozen=True)
class Losses:
    """What each of N pairs loses, either way round."""

    one: Ints
    other: Ints
    other_below: Floats
    """(N,) d of `other` below `one`."""
    one_below: Floats
    """(N,) d of `one` below `other`."""
    followed: KnownLosses | None = None
    """Where there are very many."""


def losses(jobs: Alone, found: Pairs, known: KnownLosses | None = None) -> Losses:
    """The pairwise model of the pairs that meet; of very many, the greatest losses are followed
    and the others estimated, but for what is known of them."""
    half = len(found.one)
    if 2 * half <= FOLLOWED:
        phases = PHASES if 2 * half <= FEW else MANY_PHASES
        loss = slowdown(jobs, *_sides(found, np.arange(2 * half)), phases)
        return Losses(found.one, found.other, loss[:half], loss[half:])
    if known is None:
        known = KnownLosses(np.full(2 * half, np.nan), np.full(2 * half, np.nan))
    rough, exact = known.rough.copy(), known.exact.copy()
    new = np.flatnonzero(np.isnan(rough))
    rough[new] = estimate(jobs, *_sides(found, new))
    some = rough[rough > 0]  # partition() is slow where very many are equal
    last = len(some) - FOLLOWED
    most = np.flatnonzero(rough > (np.partition(some, last)[last] if last > 0 else 0.0))
    new = most[np.isnan(exact[most])]
    exact[new] = slowdown(jobs, *_sides(found, new), MANY_PHASES)
    loss = rough.copy()
    loss[most] = exact[most]
    return Losses(found.one, found.other, loss[:half], loss[half:], KnownLosses(rough, exact))


def _sides(found: Pairs, which: Ints) -> tuple[Ints, Ints, Floats, Floats]:
    """Upper and lower job, and the seconds of either, of some losses: Followed's."""
    half = len(found.one)
    first = which < half
    at = which - half * ~first
    one, other = found.one[at], found.other[at]
    its, others = found.one_seconds[at], found.other_seconds[at]
    return (
        np.where(first, one, other),
        np.where(first, other, one),
        np.where(first, its, others),
        np.where(first, others, its),
    )


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
    pairs, lost = (found.one, found.other), (found.one_below, found.other_below)
    return Search(jobs, pairs, lost, worth, start).run()
