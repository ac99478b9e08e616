"""Turns on one host without a plan: by what the congestion control, or the shim, has seen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from hostcc.daemon.gates.local_groups import (
    MIN_ITERATIONS,
    LocalJob,
    by_connections,
    by_queue_pairs,
    local_plans,
)
from hostcc.model import JobProfile
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
    return by_connections(state[()], confidence, {"eth0": None} if links is None else links)


def test_what_a_job_needs_alone_is_seen_through_contention() -> None:
    """It never had the link to itself, but for some milliseconds."""
    found = job().exchange
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


def of_rdma(**more: Any) -> LocalJob:
    """88 ms at its port's rate; it has never been alone, so its communication takes 150 ms."""
    profile = JobProfile("r", 0.132, 0.132, 0.0, 1.0, period_s=0.282, comm_s=0.088,
                         bytes_to=(("198.18.0.1", BYTES),), confidence=0.9)  # fmt: skip
    return by_queue_pairs(replace(profile, **more), {"eth0": RATE_BPS})


def test_what_a_job_needs_of_a_port_is_seen_through_contention() -> None:
    found = of_rdma().exchange
    assert [found.burst_s, found.period_s] == pytest.approx([0.088, 0.22])
    unknown = of_rdma(comm_s=0.0).exchange
    assert [unknown.burst_s, unknown.period_s] == pytest.approx([0.15, 0.282])
    hidden = of_rdma(compute_s=0.2).exchange
    assert hidden.period_s == pytest.approx(0.22)
    computes = of_rdma(compute_s=0.3).exchange
    assert [computes.burst_s, computes.link_s] == pytest.approx([0.168, 0.088])
    assert computes.reason == groups.SPARSE


def test_a_job_of_each_kind_on_one_link_take_turns() -> None:
    found = local_plans({"r": of_rdma(), "t": job({"eth0": RATE_BPS})})
    assert (found["r"].rivals, found["t"].rivals) == (("t",), ("r",))


@pytest.mark.parametrize("unsure", [{"period_s": 0.0}, {"confidence": 0.4}])
def test_a_job_whose_queue_pairs_are_not_known_takes_none(unsure: dict[str, float]) -> None:
    found = local_plans({"r": of_rdma(**unsure), "t": job({"eth0": RATE_BPS})})
    assert found["r"].reason == groups.UNMEASURED
    assert not found["t"].rivals
    assert by_queue_pairs(None, {}).exchange.reason == groups.UNMEASURED
