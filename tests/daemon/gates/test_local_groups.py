"""Turns on one host without a plan: by what the congestion control has seen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from hostcc.daemon.gates.local_groups import MIN_ITERATIONS, LocalJob, exchange, local_plans
from hostcc.schedule.gates import groups
from tests.fakes import STATE

pytestmark = pytest.mark.unit

RATE_BPS = 200e6
BYTES = 2_200_000
"""88 ms at that rate."""


def job(
    links: Mapping[str, float | None] | None = None, confidence: float = 0.9, **more: Any
) -> LocalJob:
    state = np.zeros((), STATE)
    figures = {
        "iterations": 30,
        "trust": 8,
        "total_bytes": BYTES,
        "ns_per_mib": 8 * 2**20 / RATE_BPS * 1e9,
        "best_comm_ns": 150e6,
        "usual_gap_ns": 132e6,
    }
    for name, value in {**figures, **more}.items():
        state[name] = int(value)
    return LocalJob(state[()], confidence, {"eth0": None} if links is None else links)


def test_what_a_job_needs_alone_is_seen_through_contention() -> None:
    """It never had the link to itself, but for some milliseconds."""
    found = exchange(job())
    assert found.burst_s == pytest.approx(0.088)
    assert found.period_s == pytest.approx(0.22)


def test_jobs_on_one_link_take_turns() -> None:
    found = local_plans({"a": job(), "b": job(), "c": job({"eth1": None})})
    assert found["a"].rivals == ("b",)
    assert found["b"].rivals == ("a",)
    assert found["c"].reason == groups.ALONE


def test_jobs_that_cannot_fill_the_link_do_not() -> None:
    fast = {"eth0": 1e9}
    assert local_plans({"a": job(fast), "b": job(fast)})["a"].reason == groups.ALONE
    full = {"eth0": 300e6}
    assert local_plans({"a": job(full), "b": job(full)})["a"].rivals == ("b",)


@pytest.mark.parametrize(
    "unsure",
    [
        job(iterations=MIN_ITERATIONS - 1),
        job(trust=1),
        job(usual_gap_ns=0),
        job(best_comm_ns=0),
        job(confidence=0.0),
    ],
)
def test_a_job_that_is_not_known_well_takes_none(unsure: LocalJob) -> None:
    found = local_plans({"a": job(), "b": unsure})
    assert found["b"].reason == groups.UNMEASURED
    assert not found["a"].rivals


def test_jobs_that_do_not_fit_take_none() -> None:
    long = job(total_bytes=2 * BYTES, best_comm_ns=300e6)
    found = local_plans({"a": long, "b": long})
    assert "114% of the time" in str(found["a"].reason)
