"""What passes while a job is silent: data loading, logs, whatever goes on beside its exchanges."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hostcc.measure.pattern import QUIET, mean_of, quiet_phases, sampled
from hostcc.measure.series import Floats

PHASES = 96
"""Parts of an iteration that are told apart to see when the job is silent."""
STRAY = 0.35
"""What is higher above the background than so much of the bursts' height is one of them, which
came late or early, unless it is no longer than a phase: loading has peaks."""
FAR = 10.0
"""Iterations whose silence differs by more than so many median deviations do not count."""


def background_rate(sums: Floats, starts: Floats, period: float) -> float:
    """Bytes per bin in the phases in which the job itself is silent.

    `sums`: bytes before each bin, as from `cumulative`; `starts` and `period` in bins.
    """
    whole = starts[starts + period <= len(sums) - 1]
    if not len(whole):
        return 0.0
    pieces = sampled(sums, whole, period, PHASES)
    pattern = mean_of(pieces)
    silent = _silent(pattern)
    edge = max(PHASES // 48, int(np.ceil(PHASES / period)))  # a bin that a burst begins in
    inner = silent.copy()
    for away in range(1, edge + 1):
        inner &= np.roll(silent, away) & np.roll(silent, -away)
    if not inner.any():
        return float(pieces[:, silent].mean(axis=1).min())
    rates = pieces[:, inner]
    base = float(np.median(pattern[inner]))
    counts = ~_strays(rates, base + STRAY * (float(np.quantile(pattern, 0.9)) - base))
    some = counts.any(axis=1)
    if not some.any():
        return max(0.0, typical(rates.mean(axis=1), FAR))
    means = (rates * counts).sum(axis=1)[some] / counts.sum(axis=1)[some]
    return max(0.0, typical(means, FAR))


def typical(values: Floats, far: float = 4.5) -> float:
    """The mean of the values within `far` median deviations of the median."""
    if not len(values):
        return 0.0
    middle = float(np.median(values))
    distance = np.abs(values - middle)
    allowed = max(far * float(np.median(distance)), 0.01 * abs(middle))
    return float(values[distance <= allowed].mean())


def _silent(pattern: Floats) -> npt.NDArray[np.bool_]:
    """Where a job is silent on average: what is there all the time is never twice the same."""
    quiet = quiet_phases(pattern)
    level = float(np.median(pattern[quiet]))
    height = float(pattern.max() - pattern.min())
    found: npt.NDArray[np.bool_] = quiet | (pattern <= level + QUIET * height)
    return found


def _strays(rates: Floats, most: float) -> npt.NDArray[np.bool_]:
    """Which are above `most`, and the one before or after too; shape (k, phases)."""
    high = rates > most
    both = high[:, :-1] & high[:, 1:]
    found = np.zeros_like(high)
    found[:, :-1] |= both
    found[:, 1:] |= both
    return found
