"""W of jobs whose work is not measured on all of their hosts: one rule for TCP and RDMA.  Pure.

W is what makes a job's speed count (Crux, SIGCOMM'24, section 3.1). With W = 0 all jobs are alike
to the scheduler, whatever weights their owners gave.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, median_low

ASSUMED_HOST_FLOP_PER_S = 1e15
"""FLOP/s that a host is assumed to compute for a job: eight A100 at 40 % of their 312 TFLOP/s
(NVIDIA's data sheet), as large models reach (Megatron-LM, SC'21, table 1)."""
MAX_TIMES_MEDIAN = 8.0
"""One host's work counts up to this many times the lower median of the job's measured hosts."""
LEAST_COMPUTING = 0.05
"""Share of an iteration below which its computing is not visible as a silence."""
EQUAL = "equal for each host"
MEAN = "mean of its other hosts"


def job_work(
    measured: Sequence[float], computing_s: float, period_s: float = 0.0
) -> tuple[float, str]:
    """Return (W of a job in FLOP per iteration, how it is assumed; empty: measured on all hosts).

    `measured`: FLOP per iteration of each host of the job, 0: unknown. A host that does not know
    takes the mean of those that do. Where no host knows, each is assumed to compute
    ASSUMED_HOST_FLOP_PER_S for `computing_s`, or for all of `period_s` where the job's computing
    leaves no silence. A host that overstates its work counts up to MAX_TIMES_MEDIAN times the lower
    median. NaN and negative values count as unknown.
    """
    known = [one for one in measured if math.isfinite(one) and one > 0]
    if not known:
        hosts = max(1, len(measured))
        return hosts * ASSUMED_HOST_FLOP_PER_S * _busy(computing_s, period_s), EQUAL
    most = MAX_TIMES_MEDIAN * median_low(known)
    bounded = [min(one, most) for one in known]
    if len(known) == len(measured):
        return math.fsum(bounded), ""
    return len(measured) * fmean(bounded), MEAN


def _busy(computing_s: float, period_s: float) -> float:
    return computing_s if computing_s > LEAST_COMPUTING * period_s else period_s
