"""Paces jobs that share a NIC: F(bytes_ratio) times a fair share of it for each.  Pure.

For NICs where neither a queue pair's rate nor DCQCN's parameters can be set.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from hostcc.daemon.rdma.pairs import Sender
from hostcc.mltcp.params import JobParams, Mode
from hostcc.mltcp.shape import f_of
from hostcc.verbs.plan_region import F_POINTS, Pacing

OLD_WEIGHT = 0.5
"""Weight of the former mean when an iteration has ended."""


class Sizes:
    """Learns how many bytes an iteration of one process has, for each job."""

    def __init__(self) -> None:
        self._last: dict[int, tuple[int, int]] = {}
        self._sizes: dict[int, float] = {}
        self._jobs: dict[int, str] = {}

    def take(self, senders: Iterable[Sender]) -> dict[str, int]:
        """Return job -> bytes, the most of any of its processes; absent where none is known yet."""
        those = list(senders)
        for one in those:
            total, iterations = self._last.get(one.pid, (one.bytes, one.iterations))
            ended, sent = one.iterations - iterations, one.bytes - total
            if ended > 0 and sent > 0:
                before = self._sizes.get(one.pid, sent / ended)
                self._sizes[one.pid] = OLD_WEIGHT * before + (1 - OLD_WEIGHT) * sent / ended
            if ended or one.pid not in self._last:
                self._last[one.pid] = one.bytes, one.iterations
            self._jobs[one.pid] = one.job
        live = {one.pid for one in those}
        for known in (self._last, self._sizes, self._jobs):
            for gone in known.keys() - live:
                del known[gone]
        found: dict[str, int] = {}
        for pid, size in self._sizes.items():
            job = self._jobs[pid]
            found[job] = max(found.get(job, 1), round(size))
        return found


def pacing(
    senders: Iterable[Sender],
    rates: Mapping[str, float],
    params: Mapping[str, JobParams],
    sizes: Mapping[str, int],
) -> dict[str, Pacing]:
    """Return job -> pacing of its processes; `rates`: RDMA device -> bytes per second it carries.

    Jobs that have a device for themselves, and those of unknown size, are not paced.
    """
    on: dict[str, dict[str, int]] = {}
    for one in senders:
        for device in {pair.device for pair in one.pairs}:
            jobs = on.setdefault(device, {})
            jobs[one.job] = jobs.get(one.job, 0) + 1
    found: dict[str, Pacing] = {}
    for device, jobs in on.items():
        if len(jobs) < 2 or device not in rates:
            continue
        for job, processes in jobs.items():
            of = params.get(job)
            if of is None or of.mode is Mode.OFF or job not in sizes:
                continue
            share = rates[device] / len(jobs) / processes
            if job not in found or share < found[job].rate:
                found[job] = Pacing(share, sizes[job], factors(of))
    return found


def factors(params: JobParams) -> tuple[float, ...]:
    """Return F at the points that the shim's plan has."""
    if params.mode is Mode.STATIC:
        return (params.static_weight,) * F_POINTS
    curve = f_of(params.shape, np.linspace(0.0, 1.0, F_POINTS)) * params.weight
    return tuple(float(value) for value in curve)
