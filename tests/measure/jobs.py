"""Regular jobs for tests, in bins of a millisecond."""

from __future__ import annotations

import numpy as np

from hostcc.measure.series import ByteSeries, series

MS = 1_000_000


def regular(
    bins: int, count: int, *, high: int = 1000, share: float = 0.4, start_ns: int = 0
) -> ByteSeries:
    """A burst of `share` at the end of every `bins` bins, half of it received."""
    pattern = np.where(np.arange(bins) >= bins * (1 - share), high // 2, 0)
    return series(np.tile(pattern, count), np.tile(pattern, count), MS, start_ns)
