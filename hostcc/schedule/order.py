"""hostcc's priority order: counts all contending jobs instead of one reference job.

The closed form of pair_loss.py gives d_ij, the loss of j below i. Under an order the rates are v_j
= 1 / (1 + sum over the i above j of d_ij v_i). The value of an order is the sum of worth_j v_j,
with worth W / T alone (times weights). For few jobs every order is tried. For many, jobs are
re-inserted among their contenders, starting from another order (insertion.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import permutations

import numpy as np

from hostcc.schedule.insertion import MIN_RELATIVE_GAIN, InsertionSearch
from hostcc.schedule.intensity import full
from hostcc.schedule.job_pairs import Pairs
from hostcc.schedule.pair_loss import (
    ESTIMATED_AT_ONCE,
    START_PHASES,
    IsolatedTimes,
    estimate,
    slowdown,
)
from hostcc.schedule.problem import TINY_S, Floats, Ints

MAX_ENUMERATED_JOBS = 6
"""Jobs up to which every order is tried."""
MAX_LOSSES_ALL_PHASES = 4000
"""Losses up to which each is followed from START_PHASES starting points; beyond, FEW_PHASES."""
FEW_PHASES = 4
MAX_EXACT_LOSSES = 20_000
"""Losses (two for each pair that meets) that are computed exactly, not estimated."""
MIN_GAIN = 0.01
"""Predicted gain over Crux's order (a fraction) from which on another one is taken: differences of
predictions are wrong by about as much."""
MAX_CORRECTED_JOBS = 1500
"""Jobs up to which Crux's correction is computed; of more, intensity stands for its order."""


@dataclass(frozen=True)
class KnownLosses:
    """Exact values of some of 2 N losses: first of `other` below `one`, then the other way round.

    Estimates are not among them: they take more memory than time.
    """

    at: Ints
    """Which losses are known, ascending: few of very many."""
    exact: Floats
    """Their values, from FEW_PHASES starting points."""


@dataclass(frozen=True)
class Losses:
    """Losses of N pairs, either way round."""

    one: Ints
    other: Ints
    other_below: Floats
    """(N,) d of `other` below `one`."""
    one_below: Floats
    """(N,) d of `one` below `other`."""
    followed: KnownLosses | None = None
    """Values known so far, when there are very many losses."""


def losses(jobs: IsolatedTimes, found: Pairs, known: KnownLosses | None = None) -> Losses:
    """Return the losses of the pairs that meet.

    Jobs that leave room for each other on all links that they share lose nothing, even if others
    fill these links. Of very many losses the greatest are computed exactly and the others
    estimated; `known` values are reused.
    """
    half = len(found.one)
    comm = np.maximum(jobs.comm, TINY_S)
    collide = full(found.one_seconds / comm[found.one] + found.other_seconds / comm[found.other])
    if 2 * half <= MAX_EXACT_LOSSES:
        phases = START_PHASES if 2 * half <= MAX_LOSSES_ALL_PHASES else FEW_PHASES
        loss = slowdown(jobs, *_sides(found, np.arange(2 * half)), phases)
        return Losses(found.one, found.other, loss[:half] * collide, loss[half:] * collide)
    loss = np.empty(2 * half)
    for begun in range(0, 2 * half, ESTIMATED_AT_ONCE):
        part = np.arange(begun, min(begun + ESTIMATED_AT_ONCE, 2 * half))
        loss[part] = estimate(jobs, *_sides(found, part))
    some = loss[loss > 0]  # partition() is slow where very many are equal
    last = len(some) - MAX_EXACT_LOSSES
    if last > 0:
        some.partition(last)
    most = np.flatnonzero(loss > (some[last] if last > 0 else 0.0))
    del some  # megabytes
    followed = KnownLosses(most, _exactly(jobs, found, most, known))
    loss[most] = followed.exact
    below, above = loss[:half], loss[half:]
    below *= collide
    above *= collide
    return Losses(found.one, found.other, below, above, followed)


def _exactly(jobs: IsolatedTimes, found: Pairs, which: Ints, known: KnownLosses | None) -> Floats:
    """Return the exact values of the losses `which`, ascending, as far as possible from `known`."""
    exact = np.full(len(which), np.nan)
    if known is not None and len(known.at):
        place = np.minimum(np.searchsorted(known.at, which), len(known.at) - 1)
        same = known.at[place] == which
        exact[same] = known.exact[place[same]]
    new = np.flatnonzero(np.isnan(exact))
    exact[new] = slowdown(jobs, *_sides(found, which[new]), FEW_PHASES)
    return exact


def _sides(found: Pairs, which: Ints) -> tuple[Ints, Ints, Floats, Floats]:
    """Return upper job, lower job, and the seconds of either, for the losses `which`."""
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
    """Return (jobs!, jobs) every order: the job at each rank. Do not write to it."""
    return np.array(list(permutations(range(jobs))), np.int64).reshape(-1, jobs)


def matrix(jobs: int, found: Losses) -> Floats:
    """Return (J, J) losses: entry [i, j] is d of j below i; 0 where they do not meet."""
    table = np.zeros((jobs, jobs))
    table[found.one, found.other] = found.other_below
    table[found.other, found.one] = found.one_below
    return table


def rates(table: Floats, orders: Ints) -> Floats:
    """Return (..., N, J) v of every job, by job, for N orders (N, J); `table` is (..., J, J)."""
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
    """Return the ranks (J,) of the best order found, starting from the ranks `start` (J,)."""
    if not jobs:
        return start
    if jobs <= MAX_ENUMERATED_JOBS:
        orders = all_orders(jobs)
        value = (rates(matrix(jobs, found), orders) * worth).sum(axis=-1)
        # Among equals the order closest to the start, then the first.
        steady = (start[orders] * np.arange(jobs)[::-1]).sum(axis=1)
        top = np.flatnonzero(value >= value.max() * (1 - MIN_RELATIVE_GAIN))
        order = orders[top[np.argmin(steady[top])]]
        rank = np.empty(jobs, np.int64)
        rank[order] = np.arange(jobs)
        return rank
    pairs, lost = (found.one, found.other), (found.one_below, found.other_below)
    return InsertionSearch(jobs, pairs, lost, worth, start).run()
