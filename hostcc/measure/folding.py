"""All iterations laid over each other: how much a job wants to send when in an iteration.

An iteration begins where the longest silence begins, which is where the job starts to compute;
communication starts where that silence ends.  Laid round a circle whose circumference is the
period, the mean is the job's demand as Cassini (NSDI'24, section 3) turns it against others'.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hostcc.measure.pattern import QUIET, longest_silence, mean_of, sampled
from hostcc.measure.period import Period
from hostcc.measure.series import NS, ByteSeries, Floats, cumulative

PHASES = 128
"""Parts of an iteration."""
REGULAR = 0.1
"""Only iterations are laid over each other whose length is so near to the period."""


@dataclass(frozen=True, eq=False)
class Fold:
    """Demand over the phase of an iteration; all arrays have shape (phases,), bytes/s."""

    period_s: float
    mean: Floats
    """Without the fifth of the iterations that is farthest from the median: the circle."""
    low: Floats
    """10th percentile."""
    median: Floats
    high: Floats
    """90th percentile."""
    iterations: int
    """So many were laid over each other."""
    communication_start_s: float
    """From the iteration's begin to the end of the longest silence, seconds."""
    communication_s: float
    """Time in an iteration in which the job communicates, seconds."""
    background_bytes_per_s: float
    """The rate while it does not; it is in the arrays."""
    begins_ns: Floats
    """When iterations began, on the clock of the series; shape (iterations found,)."""


def fold(of: ByteSeries, found: Period) -> Fold | None:
    """Lay a series' iterations over each other; None when it has no period, or none is complete."""
    if found.period_s is None or found.starts is None:
        return None
    period = found.period_s / of.bin_s
    sums = cumulative(of.total)
    whole = _regular(found.starts, period, len(of))
    if not len(whole):
        return None
    pieces = sampled(sums, whole, period, PHASES)
    # The starts are in the middle of the silence; an iteration begins with the silence.
    middle, silence = longest_silence(mean_of(pieces))
    begins = found.starts + (middle - silence / 2) * period / PHASES
    whole = _regular(begins, period, len(of))
    if not len(whole):
        return None
    pieces = sampled(sums, whole, period, PHASES) / of.bin_s
    low, median, high = np.quantile(pieces, (0.1, 0.5, 0.9), axis=0)
    mean = mean_of(pieces)
    background = float(found.background_bytes_per_s or 0.0)
    active = communicating(mean, background)
    silent = longest_silence(mean)[1]
    return Fold(
        period_s=found.period_s,
        mean=mean,
        low=low,
        median=median,
        high=high,
        iterations=len(pieces),
        communication_start_s=found.period_s * silent / PHASES,
        communication_s=found.period_s * float(active.mean()),
        background_bytes_per_s=background,
        begins_ns=of.start_ns + begins * of.bin_s * NS,
    )


def communicating(rates: Floats, background: float) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Where rates are more than a tenth of the way from the background to the highest."""
    height = float(rates.max(initial=0.0)) - background
    return rates > background + QUIET * height if height > 0 else np.zeros(len(rates), dtype=bool)


def _regular(begins: Floats, period: float, size: int) -> Floats:
    """The begins of iterations that are complete and as long as the period."""
    intervals = np.append(np.diff(begins), period)
    inside = (begins >= 0) & (begins + period <= size)
    regular = begins[inside & (np.abs(intervals / period - 1) < REGULAR)]
    return regular if len(regular) else begins[inside]
