"""Which jobs of one host take turns without a plan: those that share a link of their own.  Pure.

What a job needs alone follows from what its congestion control has seen: bytes of an iteration at
the highest rate of late, and its usual silence.  Both stay as they are when others slow it down.
Of a job that sends by RDMA its profile tells the silence, and its bytes at its port's rate the
rest.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from hostcc.model import JobProfile
from hostcc.schedule.gates.groups import Exchange, GatePlan, group

MIN_ITERATIONS = 8
"""Iterations that the congestion control has seen of a job."""
MIN_TRUST = 3
"""Of these, so many alike in a row."""
MIB = 2**20


@dataclass(frozen=True)
class LocalJob:
    """A job of this host."""

    exchange: Exchange
    """How it uses links, alone."""
    bytes: float
    """That it sends in an iteration."""
    links: Mapping[str, float | None]
    """Link that it sends over -> its rate, bits per second; None: unknown, or nothing enforces
    it."""


def local_plans(jobs: Mapping[str, LocalJob]) -> dict[str, GatePlan]:
    """Return the plan of each job."""
    pairs = [
        (one, other)
        for one, other in combinations(sorted(jobs), 2)
        if any(
            _fill(jobs[one].links[link], (jobs[one], jobs[other]))
            for link in jobs[one].links.keys() & jobs[other].links.keys()
        )
    ]
    return group({name: job.exchange for name, job in jobs.items()}, pairs)


def by_connections(state: Any, confidence: float, links: Mapping[str, float | None]) -> LocalJob:
    """Return a job that sends by TCP, with a period of 0 where it is not known.

    `state`: its row of struct hcc_job_state; `confidence`: of its profile, 0: there is none.
    """
    work_s = float(state["best_comm_ns"]) / 1e9
    if state["ns_per_mib"]:
        at_best_s = int(state["total_bytes"]) * int(state["ns_per_mib"]) / MIB / 1e9
        work_s = min(work_s, at_best_s)
    sure = state["iterations"] >= MIN_ITERATIONS and state["trust"] >= MIN_TRUST
    gap_s = float(state["usual_gap_ns"]) / 1e9
    period_s = work_s + gap_s if sure and work_s > 0 and gap_s > 0 else 0.0
    exchange = Exchange(period_s, work_s, work_s, confidence)
    return LocalJob(exchange, float(state["total_bytes"]), links)


def by_queue_pairs(profile: JobProfile | None, links: Mapping[str, float | None]) -> LocalJob:
    """Return a job that sends by RDMA, with a period of 0 where it is not known."""
    if profile is None or profile.period_s <= 0:
        return LocalJob(Exchange(0.0, 0.0, 0.0, 0.0), 0.0, links)
    # Where its port's rate is unknown: as measured, which others may have made longer.
    work_s = profile.comm_s or profile.period_s - profile.comm_start_s
    period_s = max(profile.compute_s, profile.comm_start_s + work_s)
    burst_s = max(period_s - profile.comm_start_s, work_s)
    exchange = Exchange(period_s, burst_s, work_s, profile.confidence)
    return LocalJob(exchange, profile.tx_bytes, links)


def _fill(bits_per_s: float | None, jobs: Collection[LocalJob]) -> bool:
    """Tell whether jobs together can fill a link; yes where its rate is not known."""
    if bits_per_s is None:
        return True
    return (
        sum(8 * of.bytes / of.exchange.burst_s for of in jobs if of.exchange.burst_s) > bits_per_s
    )
