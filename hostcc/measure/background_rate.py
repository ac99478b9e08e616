"""The rate of a job's other traffic: data loading, logs, whatever it sends beside its exchanges."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hostcc.measure.pattern import QUIET, quiet_phases, sampled
from hostcc.measure.series import Floats, median

PHASES = 96
"""Parts of an iteration in which silence is looked for."""
STRAY = 0.35
"""Rates above the background by more than this fraction of the bursts' height are a burst that came
late or early, unless they last for two phases at most: loading has peaks."""
FAR = 10.0
"""Median deviations; iterations whose background differs by more from the median do not count."""


class RobustMean(NamedTuple):
    """The mean of values most of which are alike."""

    mean: float
    error: float
    """Its standard error."""


def background(sums: Floats, starts: Floats, period: float) -> RobustMean:
    """Bytes per bin in the phases in which the job itself is silent.

    `sums`: bytes before each bin, as from `cumulative`; `starts` and `period` in bins.
    """
    whole = starts[starts + period <= len(sums) - 1]
    if not len(whole):
        return RobustMean(0.0, 0.0)
    pieces = sampled(sums, whole, period, PHASES)
    # By the mean phases would be silent for having no peaks of the loading in them.
    pattern = np.median(pieces, axis=0)
    silent = _silent(pattern)
    seldom = silent & _seldom_busy(pieces, pattern)
    silent = seldom if seldom.any() else silent
    edge = max(PHASES // 48, int(np.ceil(PHASES / period)))  # a bin that a burst begins in
    inner = silent.copy()
    for away in range(1, edge + 1):
        inner &= np.roll(silent, away) & np.roll(silent, -away)
    if not inner.any():
        # Too short a silence for a whole bin: what is sent at its edges varies with the bins.
        rates = pieces[:, silent].mean(axis=1)
        least = float(rates.min())
        return RobustMean(least, (float(rates.mean()) - least) / 2)
    rates = pieces[:, inner]
    base = median(pattern[inner])
    counts = ~_strays(rates, base + STRAY * (float(np.quantile(pattern, 0.9)) - base))
    some = counts.any(axis=1)
    if not some.any():
        return typical(rates.mean(axis=1), FAR)
    return typical((rates * counts).sum(axis=1)[some] / counts.sum(axis=1)[some], FAR)


def typical(values: Floats, far: float = 4.5) -> RobustMean:
    """The mean of the values within `far` median deviations of the median, not below 0."""
    if not len(values):
        return RobustMean(0.0, 0.0)
    middle = median(values)
    distance = np.abs(values - middle)
    allowed = max(far * median(distance), 0.01 * abs(middle))
    near = values[distance <= allowed]
    return RobustMean(max(0.0, float(near.mean())), float(near.std()) / float(np.sqrt(len(near))))


def _silent(pattern: Floats) -> npt.NDArray[np.bool_]:
    """Where a job is silent on average: what is there all the time is never twice the same."""
    quiet = quiet_phases(pattern)
    level = median(pattern[quiet])
    height = float(pattern.max() - pattern.min())
    found: npt.NDArray[np.bool_] = quiet | (pattern <= level + QUIET * height)
    return found


def _seldom_busy(pieces: Floats, pattern: Floats) -> npt.NDArray[np.bool_]:
    """Where few iterations send, `pattern` being their median; shape (phases,)."""
    low, high = float(pattern.min()), float(np.quantile(pattern, 0.9))
    found: npt.NDArray[np.bool_] = pieces.mean(axis=0) <= low + STRAY * (high - low)
    return found


def _strays(rates: Floats, most: float) -> npt.NDArray[np.bool_]:
    """Which are above `most` together with their neighbours, three in a row; shape (k, phases)."""
    high = rates > most
    found = np.zeros_like(high)
    three = high[:, :-2] & high[:, 1:-1] & high[:, 2:]
    for shift in range(3):
        found[:, shift : shift + three.shape[1]] |= three
    return found
