"""How much alike the iterations are that were found, and how evenly they come."""

from __future__ import annotations

import numpy as np

from hostcc.measure.pattern import mean_of, most_of
from hostcc.measure.series import Floats, median

TOLERANCE = 0.12
"""Of intervals, in periods: one that differs by this much is regular by 37 %."""
GAIN_RANGE = (0.5, 1.3)
"""How much weaker or stronger than the pattern an iteration may be."""
PREDICTED = 0.7
"""Share of the iterations, those that are predicted best, that has to be alike: stragglers,
checkpoints and other jobs disturb the rest."""
FEWEST_GAPS = 4
"""Gaps of one length that make shorter intervals a part of something longer."""

TURN_ENERGY, TURN_LENGTH = 0.01, 0.02
"""Fractions of the energy, and of the period, below which there is no difference."""


def explained(pieces: Floats, starts: Floats, period: float, squares: Floats) -> float:
    """Share of each iteration's variance that the others predict, in the seven tenths with most.

    Each iteration is predicted by the mean of the others, at its own strength.  Where there is
    no iteration silence is predicted, and what is sent there is an error of the one before.
    Each iteration's share is from 0 to 1, so that one with a checkpoint in it costs no more
    than itself.  `pieces`: rates, shape (k, width), from `starts`, shape (k,), on;
    `squares`: sums of the series' squares before each bin.
    """
    centre = mean_of(pieces)
    count = most_of(len(pieces))
    scale = np.clip(pieces @ centre / max(float(centre @ centre), 1e-300), *GAIN_RANGE)
    # Leaving an iteration out of the mean makes its distance to it grow by this factor.
    missed = ((pieces - scale[:, None] * centre) ** 2).mean(axis=1) * (count / (count - 1)) ** 2
    variance = ((pieces - centre.mean()) ** 2).mean(axis=1)
    missed += beyond(starts, period, squares) / period
    least = max(1e-9 * float((pieces * pieces).mean()), 1e-300)
    shares = np.maximum(0.0, 1.0 - missed / np.maximum(variance, least))
    best = max(2, int(np.ceil(PREDICTED * len(shares))))
    return float(np.sort(shares)[-best:].mean())


def beyond(starts: Floats, period: float, sums: Floats) -> Floats:
    """What lies between the end of each iteration and the start of the next; shape (k,)."""
    ends = starts + period
    nexts = np.maximum(np.append(starts[1:], ends[-1]), ends)
    edges = np.arange(len(sums))
    found: Floats = np.interp(nexts, edges, sums) - np.interp(ends, edges, sums)
    return found


def regularity(intervals: Floats, typical: float) -> float:
    """1: all intervals are equal; towards 0: they have nothing in common."""
    away = (intervals / typical - 1) / TOLERANCE
    return float(np.exp(-away * away).mean())


def gaps(starts: Floats, period: float, mean_rate: float, sums: Floats) -> float:
    """Share of the intervals that are longer, all by the same, and silent meanwhile.

    They are the silence after the last of several bursts, which `period` lies between.  A
    straggler's delay is not always the same; a checkpoint is not silent.
    """
    intervals = np.diff(starts)
    longer = intervals > (1 + TOLERANCE) * period
    if longer.sum() < FEWEST_GAPS:
        return 0.0
    middle = median(intervals[longer])
    alike = longer & (np.abs(intervals / middle - 1) < 0.1)
    if alike.sum() < 0.6 * longer.sum():
        return 0.0
    sent = beyond(starts, period, sums)[:-1][alike]
    if sent.sum() > 0.2 * mean_rate * (intervals[alike] - period).sum():
        return 0.0
    return float(alike.mean())


def alternation(pieces: Floats, intervals: Floats, period: float, parts: int) -> float:
    """How much more an iteration resembles that `parts` later than those in between.

    1: not at all, so they are iterations; towards 0: they take turns, so they are parts of
    something longer.  Both what is sent and how long it takes can take turns.  Medians, so that
    a straggler or a checkpoint does not matter; 1 when there are too few to say.
    """
    if min(len(pieces), len(intervals)) < 2 * parts + 1:
        return 1.0
    sent = np.array([
        median(((pieces[step:] - pieces[:-step]) ** 2).mean(axis=1))
        for step in range(1, parts + 1)
    ]) + TURN_ENERGY * float((pieces * pieces).mean())  # fmt: skip
    took = np.array([
        median(np.abs(intervals[step:] - intervals[:-step])) / period
        for step in range(1, parts + 1)
    ]) + TURN_LENGTH  # fmt: skip
    return float(min(of[-1] / max(of[:-1].min(), 1e-300) for of in (sent, took)))
