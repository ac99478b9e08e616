"""The period of a job that marks its iterations: exact, where the traffic only suggests it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hostcc.measure.period import (
    CONFIDENCE_ITERATIONS,
    MIN_ITERATIONS,
    Period,
    exchanged,
    regular_interval,
)
from hostcc.measure.series import NS, Bins, ByteSeries

RECENT = 5.0
"""Marks whose last one is more periods ago are old."""
PLENTY = 2 * MIN_ITERATIONS


Floats = np.ndarray[tuple[int], np.dtype[np.float64]]


def from_marks(
    levels: Sequence[Bins], boundaries_s: Sequence[float]
) -> tuple[ByteSeries, Period] | None:
    """(the series, its period) of the first of `levels` that shows enough of the iterations.

    `boundaries_s`: when iterations ended, ascending, seconds on the clock of the series.
    None with fewer than five, and when the last one was long ago.
    """
    found: tuple[Bins, Floats, float] | None = None
    most = MIN_ITERATIONS
    for of in levels:
        starts = (np.asarray(boundaries_s, dtype=np.float64) * NS - of.start_ns) / of.bin_ns
        starts = np.unique(starts[(starts >= 0) & (starts <= len(of))])
        if len(starts) <= most:
            continue
        intervals = np.diff(starts)
        middle = float(np.median(intervals))
        period = regular_interval(starts, middle) if middle > 1 else 0.0
        if not period > 1 or len(of) - starts[-1] > RECENT * period:
            continue
        found, most = (of, starts, period), len(starts)
        if len(intervals) >= PLENTY:
            break
    if found is None:
        return None
    of, starts, period = found
    whole = of.whole()
    return whole, _period(whole, starts, period)


def _period(of: ByteSeries, starts: Floats, period: float) -> Period:
    intervals = np.diff(starts)
    sent = exchanged(of.total, starts, period)
    low, high = np.quantile(intervals, (0.25, 0.75))
    return Period(
        periodic=True,
        reason=f"{len(intervals)} iterations by the job's marks",
        confidence=float(1 - np.exp(-len(intervals) / CONFIDENCE_ITERATIONS)),
        period_s=period * of.bin_s,
        mean_period_s=float(intervals.mean()) * of.bin_s,
        bytes_per_iteration=sent.amount,
        background_bytes_per_s=sent.background / of.bin_s,
        spread=float(high - low) / 2 / period,
        starts=starts,
    )
