"""Nanoseconds per ACK out of run statistics."""

from __future__ import annotations

import pytest

from benchmarks import ack_cost, ack_throughput
from benchmarks.cost import Cost, Hook, difference, without


def test_programs_are_hooks_and_earlier_runs_do_not_count() -> None:
    before = {"hcc_reno_avoid": (10, 1000)}
    after = {"hcc_reno_avoid": (30, 5000), "hcc_reno_acked": (5, 50), "hcc_acked": (1, 10)}
    assert difference(before, after) == {"avoid": Hook(20, 4000), "acked": Hook(6, 60)}


def test_per_ack() -> None:
    cost = Cost(100, {"avoid": Hook(80, 8000), "acked": Hook(120, 12000)})
    assert cost.calls_per_ack == pytest.approx(2)
    assert cost.ns_per_ack == pytest.approx(200)
    empty = Cost(10, {"avoid": Hook(10, 300), "acked": Hook(10, 500)})
    assert without(cost, empty) == pytest.approx(200 - 2 * 40)
    assert without(cost, Cost(10, {})) == pytest.approx(200)


def test_the_kernels_cubic_is_a_difference() -> None:
    found = {
        "null": [Cost(10, {"acked": Hook(10, 800)})] * 2,
        "pass": [Cost(10, {"acked": Hook(10, 2000)}), Cost(10, {"acked": Hook(10, 1800)})],
        "hostcc": [Cost(10, {"acked": Hook(20, 3000)})] * 2,
    }
    rows = ack_cost.rows(found)
    assert [row["control"] for row in rows] == [
        ack_cost.NULL,
        ack_cost.PASS,
        ack_cost.KERNEL,
        "hostcc: hostcc",
    ]
    kernel, own = rows[2]["above"], rows[3]["above"]
    assert kernel == rows[1]["above"]
    assert getattr(kernel, "values") == pytest.approx((120.0, 100.0))  # noqa: B009
    assert getattr(own, "median") == pytest.approx(300 - 2 * 80)  # noqa: B009
    assert "above" not in rows[0]


def test_throughput_is_compared_with_that_of_cubic_in_the_same_round() -> None:
    slow, fast = [9.9e9, 4.8e9, 3.0e9], [10e9, 5e9, 2e9]
    found = {1: {"cubic": fast, "hostcc": slow, "gated": fast, "metered": [9e9, 4.5e9, 3e9]}}
    usual, own, _, _ = ack_throughput.rows(found)
    assert getattr(usual["bps_1"], "median") == 5e9  # noqa: B009
    assert getattr(own["of_cubic_1"], "values") == pytest.approx((0.99, 0.96, 1.5))  # noqa: B009
    assert [(one.met, one.passing) for one in ack_throughput.judge(found)] == [
        (True, 2),
        (True, 3),
        (False, 1),
    ]
    assert ack_throughput.rows({}) == []
