"""The rate at which a job was served at best, and the work of an iteration that follows from it."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.mltcp.native_build import RENO, SLOT, Native, NativeJob

MIB = 1 << 20
EVERY_NS = st.integers(40_000, 500_000)
"""Between two acknowledgements of steady service."""
COST = st.integers(10**4, 2**28)
"""ns per MiB: from 840 Gbit/s down."""
Row = npt.NDArray[np.void]


def feed(native: Native, state: Row, acks: Iterable[tuple[int, int]]) -> None:
    """Acknowledgements (ns, bytes)."""
    for at_ns, count in acks:
        state["bytes_acked"] += count
        native.call("learn_rate", state, at_ns)


def steady(first_ns: int, every_ns: int, count: int, size: int) -> list[tuple[int, int]]:
    return [(first_ns + n * every_ns, size) for n in range(count)]


def enough(native: Native, every_ns: int, size: int) -> None:
    """A window of service has as many bytes as it takes to count."""
    least = native.enums["HCC_MIN_ITERATION_BYTES"] // 4
    assume(native.enums["HCC_RATE_WINDOW_NS"] // every_ns * size >= least)


def iteration_ends(native: Native, state: Row, now_ns: int, comm_ns: int = 10**8) -> None:
    state["iteration_bytes"] = 10 * MIB
    state["iteration_start_ns"], state["last_active_ns"] = now_ns - comm_ns, now_ns
    native.call("iteration_end", state, native.conf(), now_ns)


@given(EVERY_NS, st.integers(1, 10**6), st.integers(10**8, 10**15))
def test_steady_service(native: Native, every_ns: int, size: int, start_ns: int) -> None:
    enough(native, every_ns, size)
    state = native.state()
    window = -(-native.enums["HCC_RATE_WINDOW_NS"] // every_ns)
    acks = steady(start_ns, every_ns, 3 * window + 1, size)
    feed(native, state, acks[: 2 * window])
    assert state["ns_per_mib"] == 0  # one window proves nothing
    feed(native, state, acks[2 * window :])
    assert state["ns_per_mib"] == every_ns * MIB // size


@given(
    EVERY_NS, st.integers(1000, 10**6), st.integers(0, 40_000_000), st.integers(0, 30_000_000),
    st.integers(0, 10_000),
)  # fmt: skip
def test_lump_after_a_stall_does_not_count(
    native: Native, every_ns: int, size: int, from_ns: int, stall_ns: int, spread_ns: int
) -> None:
    enough(native, every_ns, size)
    start = 10**9
    due = start + np.arange(80_000_000 // every_ns) * every_ns
    late = (due >= start + from_ns) & (due < start + from_ns + stall_ns)
    held = int(late.sum())
    assume(held * spread_ns < native.enums["HCC_RATE_WINDOW_NS"] // 2)
    came = due.copy()
    came[late] = start + from_ns + stall_ns + np.arange(held) * spread_ns
    came = np.maximum.accumulate(came)
    state = native.state()
    feed(native, state, ((int(at), size) for at in came))
    assert state["ns_per_mib"] == every_ns * MIB // size


def test_two_fast_windows_count_and_one_does_not(native: Native) -> None:
    state, window = native.state(), int(native.enums["HCC_RATE_WINDOW_NS"])
    sizes = [10**6] * 3 + [2 * 10**6] + [10**6] * 2
    feed(native, state, ((10**9 + n * window, size) for n, size in enumerate(sizes)))
    assert state["ns_per_mib"] == window * MIB // 10**6
    start = 10**9 + len(sizes) * window
    feed(native, state, ((start + n * window, 2 * 10**6) for n in range(2)))
    assert state["ns_per_mib"] == window * MIB // (2 * 10**6)


@given(st.lists(st.tuples(st.integers(1, 10**8), st.integers(0, 10**7)), max_size=60))
def test_never_faster_than_the_fastest_window(native: Native, steps: list[tuple[int, int]]) -> None:
    """Whatever comes: the estimate is a whole window's, of at least 16 KiB within 8 ms."""
    state, now = native.state(), 10**9
    least = native.enums["HCC_MIN_ITERATION_BYTES"] // 4
    longest = 2 * native.enums["HCC_RATE_WINDOW_NS"]
    costs = []
    for gap, count in steps:
        now += gap
        mark_ns, mark = int(state["rate_mark_ns"]), int(state["rate_mark_bytes"])
        before = int(state["ns_per_mib"])
        feed(native, state, [(now, count)])
        closed, sent = int(state["rate_mark_ns"]) != mark_ns, int(state["bytes_acked"]) - mark
        if closed and now - mark_ns <= longest and sent >= least:
            costs.append(((now - mark_ns) << 20) // sent)
        after = int(state["ns_per_mib"])
        assert after == before or (after in costs[-2:] and after == max(costs[-2:]))
    assert state["ns_per_mib"] < 1 << 29
    if len(costs) < 2:
        assert state["ns_per_mib"] == 0


@pytest.mark.parametrize(("gap_windows", "size"), [(3, 10**6), (1, 1000)])
def test_what_is_too_little(native: Native, gap_windows: int, size: int) -> None:
    """Seldom acknowledgements, and few bytes, say nothing about the link."""
    state = native.state()
    window = native.enums["HCC_RATE_WINDOW_NS"]
    feed(native, state, steady(10**9, gap_windows * window, 20, size))
    assert state["ns_per_mib"] == state["last_ns_per_mib"] == 0


@given(st.integers(10**4, 2**27), st.integers(1, 60))
def test_best_rate_is_forgotten_slowly(native: Native, cost: int, count: int) -> None:
    state = native.state(ns_per_mib=cost)
    for number in range(count):
        iteration_ends(native, state, (number + 10) * 10**9)
    growth = (1 + 1 / (1 << native.enums["HCC_FORGET_SHIFT"])) ** count
    assert state["ns_per_mib"] == pytest.approx(cost * growth, abs=count * growth)


def test_slower_link_is_believed_in_time(native: Native) -> None:
    """A link that halves its rate for good; seen again, the fast one counts at once."""
    state, start, fast, slow = native.state(), 10**9, 20_000, 10_000
    for size, iterations in ((fast, 3), (slow, 60), (fast, 1)):
        for _ in range(iterations):
            feed(native, state, steady(start, 200_000, 300, size))
            start += 300 * 200_000
            if size == fast:
                assert state["ns_per_mib"] == 200_000 * MIB // fast
            iteration_ends(native, state, start)
            start += 10**8
        assert state["ns_per_mib"] == pytest.approx(200_000 * MIB / size, rel=0.02)


@given(st.integers(0, 2**40), st.integers(0, 10**12), st.integers(0, 2**29))
def test_work(native: Native, total: int, best_ns: int, cost: int) -> None:
    state = native.state(total_bytes=total, best_comm_ns=best_ns, ns_per_mib=cost)
    work = native.call("work_ns", state)
    if not cost or total > 1 << 34:
        assert work == best_ns
    else:
        by_rate = total * cost >> 20
        assert work == (min(best_ns, by_rate) if best_ns else by_rate)


@given(COST, st.integers(0, 1 << 20), st.integers(500, 9000))
def test_what_fills_the_link(native: Native, cost: int, us: int, mss: int) -> None:
    packets = us * 1000 / cost * MIB / mss
    got = native.call("fill_q10", native.state(ns_per_mib=cost), us, mss) / 1024
    assert packets - 2 <= got <= packets
    assert native.call("fill_q10", native.state(), us, mss) == 0


@given(st.integers(0, 1024), st.integers(1, 20), st.integers(1, 20))
def test_who_came_off_badly_does_not_pass_for_long(
    native: Native, ratio: int, one: int, other: int
) -> None:
    """Jobs of the same bytes are equally urgent, however long each had to share."""
    urgencies = {
        native.call("urgency_q10", state, native.conf(), ratio)
        for contended in (one, other)
        for state in [
            native.state(
                total_bytes=10 * MIB, ns_per_mib=5_000_000, best_comm_ns=contended * 50_000_000
            )
        ]
    }
    assert len(urgencies) == 1


def test_flows_of_a_job_are_one_service(native: Native) -> None:
    """Four flows take turns: the rate is that of all of them."""
    job = NativeJob(native, flows=4)
    for flow in range(4):
        native.call("send", flow, RENO, job.now_us, 1)
        native.call("ack", flow, RENO, job.now_us, job.rtt_us)
    for number in range(400):
        job.now_us += 100
        native.call("send", number % 4, RENO, job.now_us, 5000)
        native.call("ack", number % 4, RENO, job.now_us, job.rtt_us)
    assert native.states[SLOT]["ns_per_mib"] == 100_000 * MIB // 5000


@given(EVERY_NS, st.integers(1, 10**6), st.integers(1, 10**6), st.integers(0, 10**6))
def test_an_older_clock_of_another_cpu_takes_nothing_back(
    native: Native, every_ns: int, size: int, older_ns: int, late: int
) -> None:
    enough(native, every_ns, size)
    state = native.state()
    window = -(-native.enums["HCC_RATE_WINDOW_NS"] // every_ns)
    acks = steady(10**9, every_ns, 3 * window + 1, size)
    feed(native, state, acks)
    known, mark = int(state["ns_per_mib"]), int(state["rate_mark_ns"])
    feed(native, state, [(mark - older_ns, 0)])
    assert state["ns_per_mib"] == known
    assert state["rate_mark_ns"] == mark
    assert state["last_ns_per_mib"]


@given(st.integers(1, 10**6), st.integers(1, 10**6))
def test_clocks_of_two_cpus_make_no_endless_phase(
    native: Native, active_older: int, end_older: int
) -> None:
    state = native.state(iteration_start_ns=10**9, iteration_bytes=10 * MIB, best_comm_ns=10**8)
    state["last_active_ns"] = 10**9 - active_older
    native.call("iteration_end", state, native.conf(), 10**9 - end_older)
    assert state["comm_ns"] == state["period_ns"] == 0
