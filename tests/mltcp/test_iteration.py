"""hostcc/bpf/programs/iteration.h: silence, and what is learned at the end of an iteration."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.mltcp.native_build import Native

ONE = 1024
U32 = st.integers(0, 2**32 - 1)


def test_layouts_agree(native: Native) -> None:
    assert native.struct_bytes("state") == native.state_dtype.itemsize
    assert native.struct_bytes("conf") == native.conf_dtype.itemsize
    assert native.struct_bytes("path") == native.path_dtype.itemsize
    assert native.enums["HCC_ONE"] == ONE


@given(U32.filter(bool), st.integers(0, 10**7))
def test_silence_that_was_configured_is_taken(native: Native, silence_us: int, rtt: int) -> None:
    conf = native.conf(silence_us=silence_us)
    state = native.state(usual_gap_ns=10**9)
    assert native.call("silence_ns", state, conf, rtt) == silence_us * 1000


@given(st.integers(0, 10**11), st.integers(0, 10**8))
def test_silence_that_is_learned_is_above_round_trips(
    native: Native, gap_ns: int, rtt_us: int
) -> None:
    silence = native.call("silence_ns", native.state(usual_gap_ns=gap_ns), native.conf(), rtt_us)
    floor = max(native.enums["HCC_MIN_SILENCE_US"], rtt_us * native.enums["HCC_SILENCE_RTTS"])
    assert native.call("min_silence_ns", rtt_us) == floor * 1000
    assert silence >= floor * 1000
    assert silence in (floor * 1000, gap_ns // 2)


@given(st.lists(st.integers(1, 10**11), min_size=1, max_size=30))
def test_gap_reference_stays_among_the_gaps_seen(native: Native, gaps: list[int]) -> None:
    state = native.state()
    for gap in gaps:
        native.call("learn_gap", state, gap)
        assert 0 < state["usual_gap_ns"] <= max(gaps)


@given(st.integers(10**7, 10**10), st.integers(1, 10**12))
def test_one_gap_moves_the_reference_little(native: Native, usual: int, odd: int) -> None:
    state = native.state()
    for _ in range(5):
        native.call("learn_gap", state, usual)
    assert state["usual_gap_ns"] == usual
    native.call("learn_gap", state, odd)
    assert usual // 2 <= state["usual_gap_ns"] <= 2 * usual


@given(st.lists(st.integers(1, 2**40), min_size=1, max_size=20), st.sampled_from([0, 1 << 20]))
def test_total_is_the_last_iteration_or_what_was_given(
    native: Native, sizes: list[int], given_total: int
) -> None:
    state, conf = native.state(), native.conf(total_bytes=given_total)
    now = 10**9
    for number, size in enumerate(sizes):
        start, before, trust = now, int(state["total_bytes"]), int(state["trust"])
        state["iteration_bytes"] = size
        state["iteration_start_ns"], state["last_active_ns"] = start, start + 10**7
        now += 10**8
        native.call("iteration_end", state, conf, now)
        if given_total or trust <= native.enums["HCC_TRUST_LOSS"] or size < 1.8 * before:
            assert state["total_bytes"] == (given_total or size)
        else:
            assert state["total_bytes"] in {size, before}
        assert state["iterations"] == number + 1
        assert state["comm_ns"] == 10**7
        assert state["period_ns"] == 10**8
        assert state["iteration_start_ns"] == now
        assert state["iteration_bytes"] == state["yield_ns"] == state["yield_since_ns"] == 0
        assert state["trust"] <= native.enums["HCC_TRUST_MAX"]


@given(st.lists(st.integers(10**6, 10**10), min_size=2, max_size=40))
def test_best_time_forgets_slowly(native: Native, times: list[int]) -> None:
    state, conf = native.state(), native.conf()
    now = 10**9
    for time in times:
        before = int(state["best_comm_ns"])
        state["iteration_bytes"] = 1 << 20
        state["iteration_start_ns"], state["last_active_ns"] = now, now + time
        now += 2 * time
        native.call("iteration_end", state, conf, now)
        best = int(state["best_comm_ns"])
        assert best <= max(time, before + (before >> native.enums["HCC_FORGET_SHIFT"]))
        assert best >= min(times)


def ended(native: Native, state: Any, sizes: list[int]) -> None:
    """Iterations of so many bytes, which take as long as these need."""
    for size in sizes:
        now = int(state["iteration_start_ns"])
        state["iteration_bytes"], state["last_active_ns"] = size, now + size * 100
        native.call("iteration_end", state, native.conf(), now + size * 200)


@pytest.mark.parametrize(
    ("size", "missed"), [(2.0, True), (2.1, True), (3.9, True), (2.3, False), (9.0, False)]
)
def test_an_end_that_was_missed_changes_nothing(
    native: Native, size: float, *, missed: bool
) -> None:
    state = native.state(iteration_start_ns=10**9)
    ended(native, state, [10**6] * 10)
    best_ns = int(state["best_comm_ns"])
    ended(native, state, [int(size * 10**6)])
    assert state["total_bytes"] == (10**6 if missed else int(size * 10**6))
    assert state["best_comm_ns"] == (best_ns + best_ns // 64 if missed else int(size * 10**6) * 100)
    assert state["trust"] == native.enums["HCC_TRUST_MAX"] - native.enums["HCC_TRUST_LOSS"]
    ended(native, state, [10**6])
    assert (state["trust"] > native.enums["HCC_TRUST_LOSS"]) == missed


def test_a_job_that_sends_twice_as_much_is_known_soon(native: Native) -> None:
    state = native.state(iteration_start_ns=10**9)
    ended(native, state, [10**6] * 10)
    ended(native, state, [2 * 10**6] * 2)
    assert state["total_bytes"] == 2 * 10**6
    assert state["trust"] == 0
    ended(native, state, [2 * 10**6] * 2)
    assert state["trust"] == 2
