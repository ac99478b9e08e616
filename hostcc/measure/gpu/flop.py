"""FLOP of one reading: activity of each pipe times its peak, or utilisation times peak."""

from __future__ import annotations

import math

from hostcc.measure.gpu.peaks import peak
from hostcc.measure.gpu.readings import Pipe, Reading, Source


def flop_of(reading: Reading) -> tuple[float | None, Source]:
    """Work between the two looks, FLOP, and where the figure comes from.

    With counters: the sum over pipes of activity x peak at the clock that ran x time.
    Without: utilisation x peak of the fastest pipe x time, an upper bound that still
    orders jobs by how long they compute.  None and UNKNOWN where a value is missing.
    """
    span = reading.end_s - reading.start_s
    if not (math.isfinite(span) and span > 0):
        return None, Source.UNKNOWN
    if reading.pipes:
        total = _by_counters(reading)
        if total is not None:
            return total * span, Source.COUNTERS
    if reading.utilisation is not None:
        rates = [rate for pipe in Pipe if (rate := _peak(reading, pipe)) is not None]
        if rates:
            return _share(reading.utilisation) * max(rates) * span, Source.UTILISATION
    return None, Source.UNKNOWN


def _by_counters(reading: Reading) -> float | None:
    """FLOP/s."""
    total = 0.0
    for pipe, activity in reading.pipes.items():
        rate = _peak(reading, pipe)
        if rate is None:
            return None
        total += _share(activity) * rate
    return total


def _peak(reading: Reading, pipe: Pipe) -> float | None:
    gpu = reading.gpu
    clock = gpu.max_clock_hz if reading.clock_hz is None else reading.clock_hz
    return peak(gpu.capability, gpu.multiprocessors, clock, pipe)


def _share(value: float) -> float:
    """A share as the driver gave it, kept between 0 and 1."""
    return min(max(value, 0.0), 1.0) if math.isfinite(value) else 0.0
