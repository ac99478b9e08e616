"""A job's iteration times as a Prometheus histogram.  Pure.

The congestion control may miss an iteration's end, so that two come as one, or see one too many.
So what it saw is divided by bytes: sum and count are right even where single times are not.
"""

from __future__ import annotations

from bisect import bisect_left

BOUNDS_S = (
    0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0,
    20.0, 50.0, 100.0,
)  # fmt: skip
"""Upper bounds of the buckets, seconds."""
LEAST_PART = 0.75
"""Part of the usual bytes from which an interval is an iteration; less is put to the next one."""
MAX_AT_ONCE = 16
"""Iterations that one interval counts as, at most: its end was hardly missed more often."""


class IterationHistogram:
    """Counts of iterations by their time, since the job appeared."""

    def __init__(self) -> None:
        self.count, self.sum_s = 0, 0.0
        self._counts = [0] * (len(BOUNDS_S) + 1)
        self._part_s = self._part_bytes = 0.0
        """Intervals that were not an iteration yet."""

    def add(self, period_s: float, size: float, usual: float) -> None:
        """Add an interval that moved `size` bytes; an iteration usually moves `usual`, above 0."""
        self._part_s += period_s
        self._part_bytes += size
        parts = self._part_bytes / usual
        if parts < LEAST_PART:
            return
        count = min(max(1, round(parts)), MAX_AT_ONCE)
        self._counts[bisect_left(BOUNDS_S, self._part_s / count)] += count
        self.count += count
        self.sum_s += self._part_s
        self._part_s = self._part_bytes = 0.0

    def buckets(self) -> list[tuple[str, float]]:
        """Return (upper bound, iterations of at most that time), the last one "+Inf"."""
        found, total = [], 0
        for bound, count in zip([*map(str, BOUNDS_S), "+Inf"], self._counts, strict=True):
            total += count
            found.append((bound, float(total)))
        return found
