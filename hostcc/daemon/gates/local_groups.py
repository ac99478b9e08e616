"""Which jobs of one host take turns without a plan: those that share a link of their own.  Pure.

What a job needs alone follows from what its congestion control has seen: bytes of an iteration at
the highest rate of late, and its usual silence.  Both stay as they are when others slow it down.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from hostcc.schedule.gates.groups import Exchange, GatePlan, group

MIN_ITERATIONS = 8
"""Iterations that the congestion control has seen of a job."""
MIN_TRUST = 3
"""Of these, so many alike in a row."""
MIB = 2**20


@dataclass(frozen=True)
class LocalJob:
    """A job of this host."""

    state: Any
    """A row of struct hcc_job_state."""
    confidence: float
    """Of its profile; 0: there is none."""
    links: Mapping[str, float | None]
    """Link that it sends over -> its rate, bits per second; None: unknown, or nothing enforces
    it."""


def local_plans(jobs: Mapping[str, LocalJob]) -> dict[str, GatePlan]:
    """Return the plan of each job."""
    exchanges = {name: exchange(job) for name, job in jobs.items()}
    pairs = [
        (one, other)
        for one, other in combinations(sorted(jobs), 2)
        if any(
            _fill(jobs[one].links[link], (exchanges[one], exchanges[other]), jobs, (one, other))
            for link in jobs[one].links.keys() & jobs[other].links.keys()
        )
    ]
    return group(exchanges, pairs)


def exchange(job: LocalJob) -> Exchange:
    """Return how a job uses links, alone; a period of 0 where it is not known."""
    state = job.state
    work_s = float(state["best_comm_ns"]) / 1e9
    if state["ns_per_mib"]:
        at_best_s = int(state["total_bytes"]) * int(state["ns_per_mib"]) / MIB / 1e9
        work_s = min(work_s, at_best_s)
    sure = state["iterations"] >= MIN_ITERATIONS and state["trust"] >= MIN_TRUST
    gap_s = float(state["usual_gap_ns"]) / 1e9
    period_s = work_s + gap_s if sure and work_s > 0 and gap_s > 0 else 0.0
    return Exchange(period_s, work_s, work_s, job.confidence)


def _fill(
    bits_per_s: float | None,
    exchanges: Collection[Exchange],
    jobs: Mapping[str, LocalJob],
    names: Collection[str],
) -> bool:
    """Tell whether jobs together can fill a link; yes where its rate is not known."""
    if bits_per_s is None:
        return True
    asked = 0.0
    for one, name in zip(exchanges, names, strict=True):
        if one.burst_s > 0:
            asked += 8 * int(jobs[name].state["total_bytes"]) / one.burst_s
    return asked > bits_per_s
