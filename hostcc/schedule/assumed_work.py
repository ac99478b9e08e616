"""W of jobs whose work is not measured on all of their hosts: one rule for TCP and RDMA.  Pure.

W is what makes a job's speed count (Crux, SIGCOMM'24, section 3.1). With W = 0 all jobs are alike
to the scheduler, whatever weights their owners gave.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean, median_low

from hostcc.model import ClusterView, JobProfile

ASSUMED_UTILISATION = 0.4
"""Share of their peak that GPUs are assumed to reach while they compute, as large models do
(Megatron-LM, SC'21, table 1)."""
ASSUMED_GPUS = 8
"""GPUs that a job is assumed to have on a host where none of its GPUs is seen."""
ASSUMED_HOST_FLOP_PER_S = 1e15
"""FLOP/s that a host is assumed to compute for a job where its GPUs are unknown: eight A100 at 40 %
of their 312 TFLOP/s (NVIDIA's data sheet)."""
ASSUMED_COMPUTING_S = 1.0
"""Taken for the computing of an iteration of which no time is known."""
MAX_TIMES_MEDIAN = 8.0
"""One host's work counts up to this many times the lower median of the job's measured hosts."""
LEAST_COMPUTING = 0.05
"""Share of an iteration below which its computing is not visible as a silence."""
EQUAL = "equal for each host"
MEAN = "mean of its other hosts"
BY_GPUS = "by its hosts' GPUs"


def job_work(
    measured: Sequence[float],
    computing_s: float,
    period_s: float = 0.0,
    rates: Sequence[float] = (),
) -> tuple[float, str]:
    """Return (W of a job in FLOP per iteration, how it is assumed; empty: measured on all hosts).

    `measured`: FLOP per iteration of each host of the job, 0: unknown. A host that does not know
    takes the mean of those that do. Where no host knows, each is assumed to compute its entry of
    `rates` (FLOP/s by its GPUs, 0: unknown), or else the mean of the known ones, or else
    ASSUMED_HOST_FLOP_PER_S. It does so for `computing_s`, or for all of `period_s` where the job's
    computing leaves no silence. A host that overstates its work or rate counts up to
    MAX_TIMES_MEDIAN times the lower median. NaN and negative values count as unknown.
    """
    hosts = max(1, len(measured))
    if known := _bounded(measured):
        return hosts * fmean(known), MEAN if len(known) < hosts else ""
    known = _bounded(rates)
    rate = fmean(known) if known else ASSUMED_HOST_FLOP_PER_S
    return hosts * rate * _busy(computing_s, period_s), BY_GPUS if known else EQUAL


def completed(view: ClusterView) -> ClusterView:
    """Return the view with the work of jobs that have none assumed, as agents do.

    Hosts of a job are the ends of its flows; its `assumed_flop_per_s` is that of all of them.
    """
    ends: dict[str, set[str]] = {}
    for flow in view.flows:
        ends.setdefault(flow.job, set()).update((flow.src, flow.dst))

    def one(job: JobProfile) -> JobProfile:
        if job.work > 0:
            return job
        hosts = max(1, len(ends.get(job.job, ())))
        rates = [job.assumed_flop_per_s / hosts] * hosts
        work, how = job_work([0.0] * hosts, job.compute_s, job.period_s, rates)
        return replace(job, work=work, assumed=how)

    return replace(view, jobs=tuple(map(one, view.jobs)))


def _bounded(values: Sequence[float]) -> list[float]:
    known = [one for one in values if math.isfinite(one) and one > 0]
    most = MAX_TIMES_MEDIAN * median_low(known) if known else 0.0
    return [min(one, most) for one in known]


def _busy(computing_s: float, period_s: float) -> float:
    visible = computing_s > LEAST_COMPUTING * period_s
    return (computing_s if visible else period_s) or ASSUMED_COMPUTING_S
