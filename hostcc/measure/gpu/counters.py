"""GPM counters, as NVML numbers them, to the activity of each pipe."""

from __future__ import annotations

import math
from collections.abc import Mapping

from hostcc.measure.gpu.readings import Pipe

# nvmlGpmMetricId_t; each is a percentage.
SM_UTIL = 2
ANY_TENSOR = 5
DFMA_TENSOR = 6
HMMA_TENSOR = 7
DMMA_TENSOR = 8
FP64 = 11
FP32 = 12
FP16 = 13
WANTED = (SM_UTIL, ANY_TENSOR, DFMA_TENSOR, HMMA_TENSOR, DMMA_TENSOR, FP64, FP32, FP16)


def shares_of(percentages: Mapping[int, float]) -> dict[int, float]:
    """Percentages as shares of 1, kept between 0 and 1; what is no number is left out."""
    return {
        metric: min(max(value / 100.0, 0.0), 1.0)
        for metric, value in percentages.items()
        if math.isfinite(value)
    }


def pipes_of(active: Mapping[int, float]) -> dict[Pipe, float]:
    """Activity of each pipe, 0 to 1, from the shares of the metrics that were reported.

    Tensor work that is neither half nor double precision (FP8, integers) shows only in
    ANY_TENSOR; it counts as half precision, as the rates of the pipe cannot be told apart.
    """
    found: dict[Pipe, float] = {}
    double = _most(active, DFMA_TENSOR, DMMA_TENSOR)
    if double is not None:
        found[Pipe.TENSOR64] = double
    half, anything = active.get(HMMA_TENSOR), active.get(ANY_TENSOR)
    if anything is not None:
        rest = max(anything - (double or 0.0), 0.0)
        half = rest if half is None else max(half, rest)
    if half is not None:
        found[Pipe.TENSOR] = half
    for metric, pipe in ((FP64, Pipe.FP64), (FP32, Pipe.FP32), (FP16, Pipe.FP16)):
        if metric in active:
            found[pipe] = active[metric]
    return found


def _most(active: Mapping[int, float], *metrics: int) -> float | None:
    return max((active[metric] for metric in metrics if metric in active), default=None)
