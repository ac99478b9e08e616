"""Analyses of several jobs' bins, one after the other, in a thread; each one's time is measured."""

from __future__ import annotations

import time
from collections.abc import Sequence

from hostcc.daemon.profiling.analysis_budget import AnalysisRequest


def analyse_all(batch: Sequence[AnalysisRequest]) -> list[float | Exception]:
    """Return the CPU time that each took, seconds, or why it failed."""
    return [_analyse_one(request) for request in batch]


def _analyse_one(request: AnalysisRequest) -> float | Exception:
    began_s = time.thread_time()
    try:
        request.track.analyse(
            request.bins,
            thorough=request.thorough,
            unchanged_until_ns=request.unchanged_until_ns,
            skips=request.skips,
        )
    except Exception as error:  # noqa: BLE001 - the other jobs' bins are in this batch only
        return error
    return time.thread_time() - began_s
