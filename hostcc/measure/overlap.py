"""How much of a job's communication is hidden under its computation.

Where a GPU's activity counts the kernels of the communication library as work, the answer is
too high; readings of the arithmetic units do not (docs/internals/measure-period.md).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hostcc.measure.folding import communicating
from hostcc.measure.period import Period
from hostcc.measure.series import NS, ByteSeries, Floats, cumulative
from hostcc.measure.work import Activity

COARSEST = 0.25
"""Periods between two readings of activity, at most: a longer mean covers both phases."""
COVERED = 0.5
"""Share of the communication during which activity has to be known."""


@dataclass(frozen=True)
class Overlap:
    """The overlap ratio, or why it is unknown."""

    ratio: float | None
    """0: the GPUs wait while the job communicates; 1: they compute all the time."""
    reason: str = ""


UNKNOWN = Overlap(None, "no GPU activity")


def overlap(of: ByteSeries, found: Period, activity: Activity | None) -> Overlap:
    """Share of the communication time in which the GPUs compute.

    `activity` is on the clock of the series.  Unknown is an answer, not an error.
    """
    if activity is None or not len(activity.busy):
        return UNKNOWN
    if found.period_s is None:
        return Overlap(None, "not periodic")
    known = np.isfinite(activity.busy)
    lengths = activity.end_s - activity.start_s
    if not known.any():
        return UNKNOWN
    reading = float(np.median(lengths[known]))
    if reading > COARSEST * found.period_s:
        return Overlap(
            None,
            f"activity is read every {reading:.3g} s, which is too seldom for iterations of "
            f"{found.period_s:.3g} s",
        )
    edges = (of.start_ns + np.arange(len(of) + 1, dtype=np.float64) * of.bin_ns) / NS
    seen = _within(activity, known.astype(np.float64), edges)
    busy = _within(activity, np.where(known, np.clip(activity.busy, 0.0, 1.0), 0.0), edges)
    rates = of.total / of.bin_s
    # A single spike must not decide what counts as communication.
    capped = np.minimum(rates, float(np.quantile(rates, 0.99)))
    active = communicating(capped, float(found.background_bytes_per_s or 0.0))
    total, covered = float(active.sum()) * of.bin_s, float(seen[active].sum())
    if not total or covered < COVERED * total:
        return Overlap(None, "GPU activity is known during too little of the communication")
    return Overlap(float(np.clip(busy[active].sum() / covered, 0.0, 1.0)))


def _within(activity: Activity, weight: Floats, edges: Floats) -> Floats:
    """Seconds, times the weight, of the activity's intervals in each bin; shape (n,)."""
    order = np.argsort(activity.start_s, kind="stable")
    starts = activity.start_s[order]
    # Intervals that overlap each other are cut, so that no moment counts twice.
    ends = np.minimum(activity.end_s[order], np.append(starts[1:], np.inf))
    lengths = np.maximum(ends - starts, 0.0)
    times = np.stack((starts, starts + lengths), axis=1).ravel()
    passed = cumulative(lengths * weight[order])
    sums = np.stack((passed[:-1], passed[1:]), axis=1).ravel()
    found: Floats = np.diff(np.interp(edges, times, sums))
    return found
