"""Pure: upper bounds for generated series, with the period or all starts given.

Errors of these bounds are due to the length of ten iterations; the rest is the cost of detection.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from benchmarks.synthetic import Sample
from hostcc.measure.period import exchanged, regular_interval
from hostcc.measure.spectrum import detrended
from hostcc.measure.tracking import track

Answer = tuple[float | None, float | None, float]
"""Period, seconds; bytes of an iteration; confidence."""
NOTHING: Answer = (None, None, 0.0)


def told_lag(sample: Sample) -> Answer:
    """Told the period: the iterations that are found with it, whatever they look like.

    What is left to go wrong is where they begin, and the figures.
    """
    if sample.period_s is None:
        return NOTHING
    of = sample.series
    one = track(detrended(of.total), sample.period_s / of.bin_s)
    if one is None:
        return NOTHING
    sent = exchanged(of.total, one.starts, one.period)
    return regular_interval(one.starts, one.period) * of.bin_s, sent.amount, 1.0


def told_starts(sample: Sample) -> Answer:
    """Told where each iteration begins: what is left is how much of the bytes is its own."""
    if sample.period_s is None:
        return NOTHING
    of = sample.series
    sent = exchanged(of.total, sample.starts_s / of.bin_s, sample.period_s / of.bin_s)
    return float(np.median(np.diff(sample.starts_s))), sent.amount, 1.0


TOLD: dict[str, Callable[[Sample], Answer]] = {
    "told the lag": told_lag,
    "told the starts": told_starts,
}
