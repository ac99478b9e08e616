"""What the kernel reported lately, per job: enough for a mean and a tail, and no more."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping
from typing import Any

from hostcc.mltcp.backend import Records
from hostcc.sockets import Job

KEPT = 128
"""Iterations remembered per job."""
ITERATION = 3
"""HCC_EVENT_ITERATION of bpf/intf.h."""


class History:
    """Iteration periods of each job, fed with the events of the ring buffer."""

    def __init__(self) -> None:
        self._periods: defaultdict[str, deque[float]] = defaultdict(lambda: deque(maxlen=KEPT))

    def add(self, events: Records, jobs: Mapping[int, Job]) -> None:
        """Take in events; jobs that are gone are forgotten."""
        if not len(events) and not self._periods:
            return
        ended = events[events["type"] == ITERATION]
        for slot, period_ns in zip(
            ended["slot"].tolist(), ended["period_ns"].tolist(), strict=True
        ):
            job = jobs.get(slot)
            if job is not None and period_ns:
                self._periods[job.name].append(period_ns / 1e9)
        alive = {job.name for job in jobs.values()}
        for name in set(self._periods) - alive:
            del self._periods[name]

    def annotate(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Add `recent` to status rows: count, mean and 99th percentile of the period, seconds."""
        for row in rows:
            kept = sorted(self._periods.get(row["name"], ()))
            row["recent"] = {
                "iterations": len(kept),
                "mean_period_s": sum(kept) / len(kept) if kept else None,
                "p99_period_s": kept[min(len(kept) - 1, int(0.99 * len(kept)))] if kept else None,
            }
        return rows
