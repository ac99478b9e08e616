"""Merges several hosts' measurements of one job into one profile.

Sums and maxima follow Crux (SIGCOMM'24, section 4): W summed over hosts, t of the slowest. Where a
single host must not decide for the job, the lower median over its hosts is taken. Work that hosts
do not know is assumed (hostcc/schedule/assumed_work.py).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from statistics import median_low

from hostcc.coord.core.payloads import Profile
from hostcc.model import JobProfile
from hostcc.schedule.assumed_work import job_work


def merge(job: str, parts: Mapping[str, Profile]) -> JobProfile:
    """Return the profile of a job from the profiles of its hosts (at least one, in any order).

    Without bytes by destination, which are many and no plan depends on: flows say what is sent.
    """
    profiles = [parts[host] for host in sorted(parts)]
    # Times come only from hosts that measured the iteration; the others guess.
    timed = [one for one in profiles if not one.provisional]
    confidence = 1.0 if timed else 0.0
    timed = timed or profiles
    compute = max(one.compute_s for one in timed)
    # Not the median of the starts: where hosts measure silences of other lengths, as beside other
    # jobs, the difference to the longest would look like computing that overlaps.
    overlap = median_low(max(0.0, one.compute_s - one.comm_start_s) for one in timed)
    period = max(one.period_s for one in timed)
    rates = [one.assumed_flop_per_s for one in profiles]
    work, assumed = job_work([one.work for one in profiles], compute, period, rates)
    return JobProfile(
        job=job,
        compute_s=compute,
        comm_start_s=max(0.0, compute - overlap),
        work=work,
        gpus=math.fsum(one.gpus for one in profiles),
        period_s=period,
        comm_s=max(one.comm_s for one in timed),
        weight=median_low(one.weight for one in profiles),
        slowdown=median_low(one.slowdown for one in timed),
        confidence=confidence,
        assumed=assumed,
    )


def capacity(declared: Iterable[float]) -> float:
    """Return the lower median of the capacities that hosts declared for a link, in bytes/s."""
    return median_low(declared)
