"""hostcc/bpf/programs/pace.h: pauses of parked flows, and the gaps of held ones."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.mltcp.native_build import Native

ONE = 1024
RATIO = st.integers(0, ONE)
COMM_NS = st.integers(0, 10**13)


@given(st.integers(0, 2**33), COMM_NS, st.integers(0, 2**28), RATIO, RATIO)
def test_pauses_shrink_with_what_is_left(
    native: Native, total: int, comm_ns: int, ns_per_mib: int, low: int, high: int
) -> None:
    state = native.state(total_bytes=total, best_comm_ns=comm_ns, ns_per_mib=ns_per_mib)
    low, high = sorted((low, high))
    early, late = (native.call("pause_us", state, ratio) for ratio in (low, high))
    least, most = native.enums["HCC_PARK_MIN_US"], native.enums["HCC_PARK_MAX_US"]
    assert most >= early >= late >= least
    if not total:
        assert early == late == most
    elif late not in (least, most):
        left_us = native.call("work_ns", state) / 1000 * (ONE - high) / ONE
        assert late == pytest.approx(left_us / 2, abs=2)


def test_pauses_of_a_usual_job(native: Native) -> None:
    state = native.state(total_bytes=1 << 20, best_comm_ns=200_000_000)
    pauses = [native.call("pause_us", state, ratio) for ratio in (0, 512, 768, 1000, ONE)]
    assert pauses == [40_000, 40_000, 25_000, 3_000, 3_000]


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**29), st.integers(1, 9000))
def test_held_flows_send_little_together_and_look_often(
    native: Native, flows: int, ns_per_mib: int, mss: int
) -> None:
    state = native.state(flows=flows, ns_per_mib=ns_per_mib)
    gap_us = native.call("hold_gap_us", state, mss)
    least, most = native.enums["HCC_HOLD_GAP_MIN_US"], native.enums["HCC_HOLD_GAP_MAX_US"]
    assert least <= gap_us <= most
    if gap_us < most and flows < 1024:
        sent = flows * 2 * mss / (gap_us / 1e6)
        rate = 2**20 / ns_per_mib * 1e9 if ns_per_mib else float("inf")
        assert sent <= 1.01 * rate / native.enums["HCC_HOLD_DIVISOR"]


def test_flows_spread_their_first_windows_over_the_bytes_of_a_known_job(native: Native) -> None:
    def pace(flow_bytes: int, **changed: int) -> int:
        known = {"trust": 8, "total_bytes": 2_000_000, "best_comm_ns": 100_000_000}
        return native.call("spread_bps", native.state(**{**known, **changed}), flow_bytes)

    assert pace(250_000) == 2_500_000
    assert pace(2_000_000) == 20_000_000
    assert pace(5 << 30, total_bytes=40 << 30, best_comm_ns=4 * 10**9) == (5 << 30) // 4
    # A control connection, a job that is new, and rates that 32 bits cannot hold.
    assert pace(50_000) == pace(250_000, trust=1) == pace(250_000, best_comm_ns=0) == 0
    assert pace(2**32 - 1, best_comm_ns=1_000_000) == 0


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**31))
def test_an_opened_window_is_no_larger_than_before(native: Native, flows: int, had: int) -> None:
    opened = native.call("open_packets", native.state(flows=flows), had)
    assert opened <= min(had, native.enums["HCC_OPEN_MAX_PACKETS"])
    assert opened >= min(had, native.enums["HCC_OPEN_MIN_PACKETS"])
    if 8 <= flows <= 40:
        assert opened * flows <= native.enums["HCC_OPEN_PACKETS"]


@pytest.mark.parametrize(
    ("trust", "period_ms", "follows"), [(2, 300, 1), (1, 300, 0), (8, 440, 1), (8, 441, 0)]
)
def test_what_follows_the_pattern(native: Native, trust: int, period_ms: int, follows: int) -> None:
    state = native.state(
        trust=trust,
        period_ns=period_ms * 1_000_000,
        best_comm_ns=88_000_000,
        usual_gap_ns=132_000_000,
    )
    assert native.call("in_pattern", state) == follows


@pytest.mark.parametrize(
    ("total", "bytes_sent", "over"),
    [(0, 10**6, 0), (6_400_000, 6_300_000, 1), (6_400_000, 6_299_999, 0), (6400, 7000, 1)],
)
def test_the_end_of_a_burst(native: Native, total: int, bytes_sent: int, over: int) -> None:
    state = native.state(total_bytes=total, iteration_bytes=bytes_sent)
    assert native.call("burst_is_sent", state) == over
