"""What all flows of a job share, while several CPUs work on it at once."""

from __future__ import annotations

import threading

import pytest

from tests.mltcp.native_build import HOSTCC, Native, NativeJob

pytestmark = [pytest.mark.unit, pytest.mark.slow]

CPUS = 2
ROUNDS, PIECES, EVERY_US, GAP_US = 1000, 25, 400, 50_000
PACKETS, MSS = 64, 1448
"""Acknowledged at a time, on each CPU."""


def test_flows_that_work_at_the_same_moments_are_one_job(native: Native) -> None:
    """They begin and are acknowledged at once, on clocks that differ by 1 us."""
    job = NativeJob(native, CPUS, variant=HOSTCC)
    orders = (CPUS, ROUNDS, PIECES, PACKETS, EVERY_US, GAP_US)
    threads = [
        threading.Thread(target=native.call, args=("cpu", flow, *orders)) for flow in range(CPUS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    state, total = job.state, CPUS * PIECES * PACKETS * MSS
    assert state["iterations"] == ROUNDS - 1
    assert (int(state["total_bytes"]), int(state["bytes_acked"])) == (total, ROUNDS * total)
    assert (int(state["busy"]), int(state["flows"])) == (0, CPUS)
    assert state["trust"] == native.enums["HCC_TRUST_MAX"]
    assert state["long_gap_ns"] == 0
    communicating_us = PIECES * EVERY_US
    for name, expected_us in (
        ("usual_gap_ns", GAP_US),
        ("comm_ns", communicating_us),
        ("period_ns", communicating_us + GAP_US),
    ):
        assert abs(int(state[name]) / 1000 - expected_us) <= CPUS, name
    served_ns = EVERY_US * 1000 * (1 << 20) // (CPUS * PACKETS * MSS)
    assert int(state["ns_per_mib"]) == pytest.approx(served_ns, rel=0.15)
