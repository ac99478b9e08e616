"""hostcc/bpf/programs/urgency.h: how far, how urgent, what queue is tolerated; the lots."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hostcc.mltcp.params import Shape, ShapeKind
from hostcc.mltcp.shape import F_MAX, F_MIN, f_of, f_table_q10
from tests.mltcp.native_build import Native

ONE = 1024
U32 = st.integers(0, 2**32 - 1)
BYTES = st.integers(0, 2**50)
RATIO = st.integers(0, ONE)
COMM_NS = st.integers(0, 10**13)
BIAS = st.integers(-7 * 1024, 7 * 1024)
TIE = st.integers(0, ONE - 1)
TARGETS = st.tuples(st.integers(1, 10**6), st.integers(1, 10**6)).map(sorted)


@given(BYTES, BYTES)
def test_ratio(native: Native, sent: int, total: int) -> None:
    expected = 0 if not total else min(ONE, sent * ONE // total)
    assert native.call("ratio_q10", sent, total) == expected


@given(st.lists(st.integers(1, int(F_MAX * ONE)), min_size=33, max_size=33), U32)
def test_f_is_straight_between_samples(native: Native, table: list[int], ratio: int) -> None:
    conf = native.conf(f_q10=table)
    inside = min(ratio, ONE) / ONE
    exact = np.interp(inside, np.linspace(0, 1, len(table)), table)
    assert abs(native.call("f_q10", conf, ratio) - exact) <= 1


@given(st.floats(0, 20), st.floats(F_MIN, 20), st.floats(0.01, 25), RATIO)
@example(1.75, 0.25, 1.0, 0)
@example(1.75, 0.25, 1.0, ONE)
def test_f_is_what_was_configured(
    native: Native, slope: float, intercept: float, weight: float, ratio: int
) -> None:
    shape = Shape(ShapeKind.LINEAR, slope, intercept)
    conf = native.conf(f_q10=f_table_q10(shape, weight, native.enums["HCC_F_POINTS"]))
    wanted = weight * float(f_of(shape, ratio / ONE))
    got = native.call("f_q10", conf, ratio) / ONE
    # One unit for the sample, one for the interpolation, a cell's height around the lower clip.
    kink = weight * slope / 32 if wanted < F_MIN + weight * slope / 32 else 0
    assert got == pytest.approx(max(wanted, F_MIN), abs=2 / ONE + kink)


@given(st.integers(1, 2**32 - 1))
@example(2**32 - 1)
def test_logarithm(native: Native, x: int) -> None:
    log = native.call("log2_q10", x)
    assert abs(log / ONE - math.log2(x)) < 0.09
    if x & (x - 1) == 0:
        assert log == (x.bit_length() - 1) * ONE
    if x > 1:
        assert native.call("log2_q10", x - 1) <= log


@given(COMM_NS, BIAS, TIE, st.integers(0, 100), st.integers(0, 10**6), RATIO, RATIO)
def test_urgency_grows_with_what_is_done(
    native: Native, comm_ns: int, bias: int, tie: int, unsettled: int, number: int, low: int,
    high: int,
) -> None:  # fmt: skip
    """But for what the lot loses on the way."""
    state = native.state(
        total_bytes=1 << 20, best_comm_ns=comm_ns, unsettled=unsettled, iterations=number
    )
    conf = native.conf(urgency_bias_q10=bias, tie_q10=tie)
    low, high = sorted((low, high))
    urgencies = [native.call("urgency_q10", state, conf, ratio) for ratio in (low, high)]
    lots = [native.call("tie_break_q10", state, conf, ratio) for ratio in (low, high)]
    assert 0 <= urgencies[0] <= urgencies[1] + lots[0] - lots[1]
    assert urgencies[1] <= ONE
    if low >= native.enums["HCC_TIE_BREAK_UNTIL_Q10"]:
        assert urgencies[0] <= urgencies[1]


@given(COMM_NS, COMM_NS, BIAS, BIAS, RATIO)
def test_less_left_or_more_weight_is_never_less_urgent(
    native: Native, short: int, long: int, light: int, heavy: int, ratio: int
) -> None:
    short, long = sorted((short, long))
    light, heavy = sorted((light, heavy))

    def urgency(comm_ns: int, bias: int) -> int:
        state = native.state(total_bytes=1 << 20, best_comm_ns=comm_ns)
        return native.call("urgency_q10", state, native.conf(urgency_bias_q10=bias), ratio)

    assert urgency(long, light) <= urgency(short, light) <= urgency(short, heavy)


@given(BYTES, BYTES, BIAS, TIE)
def test_urgency_in_the_first_iteration_grows_with_what_was_sent(
    native: Native, little: int, much: int, bias: int, tie: int
) -> None:
    conf = native.conf(urgency_bias_q10=bias, tie_q10=tie)
    urgencies = [
        native.call("urgency_q10", native.state(iteration_bytes=sent), conf, 0)
        for sent in sorted((little, much))
    ]
    assert 0 <= urgencies[0] <= urgencies[1] <= ONE


@given(TARGETS, RATIO)
def test_target_is_between_the_configured_ones(
    native: Native, targets: list[int], urgency: int
) -> None:
    low, high = targets
    conf = native.conf(target_min_us=low, target_max_us=high)
    assert low <= native.call("target_us", conf, 0, 0, urgency) <= high


@given(TARGETS, st.integers(0, 10**6), st.integers(0, 10**7), RATIO, RATIO)
def test_target_stays_below_the_buffer(
    native: Native, targets: list[int], base_us: int, depth_us: int, one: int, other: int
) -> None:
    low, high = targets
    conf = native.conf(target_min_us=low, target_max_us=high)
    behind, ahead = (
        native.call("target_us", conf, base_us, depth_us, urgency)
        for urgency in sorted((one, other))
    )
    # Long paths may push the configured targets up, by no more than their own length.
    most = high + max(0, base_us - low)
    assert behind <= ahead <= min(most, depth_us * 3 // 4 if depth_us else most)


@given(TIE, st.integers(0, 2**40), RATIO, RATIO)
def test_lot_fades(native: Native, tie: int, number: int, low: int, high: int) -> None:
    state, conf = native.state(iterations=number), native.conf(tie_q10=tie)
    low, high = sorted((low, high))
    lots = [native.call("tie_break_q10", state, conf, ratio) for ratio in (low, high)]
    assert native.enums["HCC_TIE_BREAK_Q10"] >= lots[0] >= lots[1] >= 0
    until = native.enums["HCC_TIE_BREAK_UNTIL_Q10"]
    assert native.call("tie_break_q10", state, conf, until) == 0
    half = native.call("tie_break_q10", state, conf, until // 2)
    assert half == native.call("tie_break_q10", state, conf, 0) // 2


@given(TIE, st.integers(0, 2**32))
def test_lots_of_a_job_differ(native: Native, tie: int, first: int) -> None:
    """No job draws the same for long, and none always draws well or badly."""
    conf = native.conf(tie_q10=tie)
    drawn = [
        native.call("tie_break_q10", native.state(iterations=first + n), conf, 0) for n in range(64)
    ]
    most = native.enums["HCC_TIE_BREAK_Q10"]
    assert len(set(drawn)) > 16
    assert min(drawn) < most / 4 < most * 3 / 4 < max(drawn)


def test_a_lot_depends_on_nothing_that_hosts_disagree_on(native: Native) -> None:
    conf = native.conf(tie_q10=77)
    one = native.state(iterations=5, total_bytes=10**6, comm_ns=10**7, iteration_bytes=10**5)
    other = native.state(iterations=5, total_bytes=10**8, best_comm_ns=10**9, flows=8)
    assert (
        native.call("tie_break_q10", one, conf, 10)
        == native.call("tie_break_q10", other, conf, 10)
        > 0
    )


@given(TIE, st.integers(0, 2**32), RATIO, st.integers(0, 10))
def test_no_lots_where_order_does_not_help(
    native: Native, tie: int, number: int, ratio: int, more: int
) -> None:
    unsettled = native.enums["HCC_UNSETTLED"] + more
    state = native.state(iterations=number, unsettled=unsettled)
    lot = native.call("tie_break_q10", state, native.conf(tie_q10=tie), ratio)
    assert lot == tie // native.enums["HCC_TIE_DIVISOR"]
