"""hostcc/bpf/programs/host.bpf.h on a clock and a queue of the test's own."""

from __future__ import annotations

from statistics import mean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.mltcp.native_build import Native
from tests.mltcp.native_rounds import BASE_US, BURST, MSS, Rounds, floor_packets

LOW_US, HIGH_US = 300, 1400
PATH_YIELDS = 2
"""As in path.bpf.h."""
"""Targets of the native job."""
DEEP_US = 4000
"""Deeper than any target."""
FLOOR_GAP_US, CROWD_GAP_US = 3000, 12_000


# ---- a window that nobody fills ----


@given(st.integers(2, 60), st.integers(1, 6))
def test_window_that_nobody_fills_does_not_grow(native: Native, packets: int, flows: int) -> None:
    """An application that sends `packets` a round trip on an empty path."""
    path = Rounds(native, flows)
    path.write()
    path.rounds(100, 0, most=packets)
    used = (2 * packets + 2) * flows  # twice what is out and acknowledged, and a slack
    assert path.window <= 2 * used
    before = path.window
    path.rounds(100, 0, most=packets)
    assert path.window <= max(before, 2 * used)


def test_window_that_is_filled_grows(native: Native) -> None:
    path = Rounds(native)
    path.write()
    path.rounds(12, 0)
    assert path.window > 500
    grown = path.window
    path.rounds(5, 0)
    assert path.window > grown


def test_ramp_ends_where_the_known_rate_says(native: Native) -> None:
    """The delay would show a round trip late that the window has doubled once too often."""
    cost = 42_000_000  # 200 Mbit/s
    path = Rounds(native, learned={"ns_per_mib": cost})
    path.write()
    path.rounds(2, 0)
    least, most = (
        (BASE_US + target) * 1000 / cost * (1 << 20) / MSS for target in (LOW_US, HIGH_US)
    )
    assert least - 1 < path.window < most
    before = path.window
    path.round(0)
    assert before < path.window < 1.6 * before  # on by steps


@pytest.mark.parametrize("cost", [0, 4_000_000])
def test_ramp_where_the_rate_is_unknown_or_high(native: Native, cost: int) -> None:
    path = Rounds(native, learned={"ns_per_mib": cost})
    path.write()
    path.until_window(4)
    before = path.window
    path.rounds(3, 0)
    assert path.window == pytest.approx(8 * before, rel=0.02)


# ---- the queue above the target ----


def test_above_the_target_the_window_falls_to_the_floor(native: Native) -> None:
    path = Rounds(native)
    path.write()
    path.until_window(50)
    queue_us = path.target_us * 9 // 8  # above every target, but no crowd yet
    path.rounds(40, queue_us)
    assert path.window == pytest.approx(floor_packets(FLOOR_GAP_US, queue_us))
    assert path.gap_us() == pytest.approx(FLOOR_GAP_US, rel=0.02)
    assert path.state["unresponsive_ns"] == 0


def test_crowd_backs_off_four_times_as_far(native: Native) -> None:
    """A queue beyond every target: many yield, and all of them too little."""
    path = Rounds(native)
    path.write()
    path.until_window(50)
    path.rounds(15, DEEP_US)
    assert path.window == pytest.approx(floor_packets(CROWD_GAP_US, DEEP_US))
    assert path.gap_us() == pytest.approx(CROWD_GAP_US, rel=0.02)
    assert 0 < path.state["unresponsive_ns"] < native.enums["HCC_UNRESPONSIVE_NS"]
    path.rounds(10, HIGH_US)  # no crowd any more
    assert path.window == pytest.approx(floor_packets(FLOOR_GAP_US, HIGH_US))


def test_neighbour_that_does_not_yield_ends_the_patience(native: Native) -> None:
    path = Rounds(native)
    path.write()
    path.rounds(40, DEEP_US)
    assert path.state["yield_ns"] > native.call("patience_ns", path.state)
    assert path.pace() is None  # steered no longer


# ---- the buffer's depth ----


def peak(queue_us: int) -> int:
    """What is left of it after a step, which comes once a round trip."""
    return queue_us - queue_us // 8


def lose_at(path: Rounds, queue_us: int) -> int:
    """A round trip sees a queue, the next one loses; returns what is believed of the buffer."""
    path.state["yield_ns"] = 0
    path.path["q_peak_us"] = 0
    path.until_window(20)
    path.round(queue_us)
    path.native.call("lose", 0)
    return int(path.state["q_loss_us"])


def test_first_loss_tells_the_depth(native: Native) -> None:
    path = Rounds(native)
    path.write()
    assert lose_at(path, 2500) == peak(2500)


@given(st.lists(st.integers(200, 5000), min_size=1, max_size=25))
def test_depth_stays_among_what_was_seen(native: Native, queues: list[int]) -> None:
    path = Rounds(native)
    path.write()
    for queue_us in queues:
        before = int(path.state["q_loss_us"])
        after = lose_at(path, queue_us)
        least, most = peak(queue_us), queue_us
        if before:
            least, most = min(before, least), max(before, most)
        assert least <= after <= most


def test_depth_is_a_low_quantile(native: Native) -> None:
    """Half of the losses saw 1 ms, half 4 ms: it settles well below the mean."""
    path = Rounds(native)
    path.write()
    seen = [lose_at(path, 4000 if n % 2 else 1000) for n in range(200)]
    low, high = peak(1000), peak(4000)
    third = low + (high - low) / 3
    assert mean(seen[100:]) == pytest.approx(third, rel=0.1)


def test_after_many_iterations_without_a_loss_the_next_one_tells_the_depth(
    native: Native,
) -> None:
    path = Rounds(native)
    path.write()
    lose_at(path, 2500)
    later, conf = (
        native.state(q_loss_us=path.state["q_loss_us"]),
        native.conf(target_max_us=HIGH_US),
    )
    for _ in range(600):
        native.call("iteration_end", later, conf, 10**9)
        assert later["q_loss_us"] < 100 * HIGH_US
    path.state["q_loss_us"] = later["q_loss_us"]
    assert lose_at(path, 2500) == peak(2500)


def test_deepest_queue_before_the_loss_counts(native: Native) -> None:
    """A packet that was dropped shows no delay, and those before it saw less and less buffer."""
    path = Rounds(native)
    path.write()
    path.until_window(20)
    for queue_us in (500, 3000, 900, 400):
        path.round(queue_us)
    native.call("lose", 0)
    assert 3000 * (7 / 8) ** 3 - 3 <= path.state["q_loss_us"] <= 3000


def test_empty_queue_and_parked_flows_tell_nothing(native: Native) -> None:
    path = Rounds(native, flows=2)
    path.write()
    assert lose_at(path, 90) == 0
    assert peak(2000) <= lose_at(path, 2000) <= 2000
    path.rounds(12, HIGH_US * 9 // 8)
    awake = path.path["awake"]
    before = int(path.state["q_loss_us"])
    assert awake == 1
    path.path["q_peak_us"] = 500
    for flow in range(2):
        native.call("lose", flow)
    assert path.state["q_loss_us"] == before - (before - 500) // 8  # one of the two counted


# ---- whose RTT counts ----


@pytest.mark.parametrize("queue_us", [0, 150, 700])
@pytest.mark.parametrize("still_to_come", [True, False])
def test_own_rtt_where_the_time_stamp_is_false(
    native: Native, queue_us: int, still_to_come: bool
) -> None:
    path = Rounds(native)
    path.write()
    path.until_window(10)
    path.rounds(30, HIGH_US * 9 // 8)
    assert path.pace() is not None
    hold = 0
    while path.pace() is not None:
        # Its pace has put the next departure after the ACK that lifts the pace.
        hold = path.job.now_us + BASE_US + 100
        native.call("depart", 0, hold)
        path.round(0)
    # What has just left carries that time as its time stamp.
    path.job.now_us += BASE_US + queue_us
    false = -1 if still_to_come else path.job.now_us - hold
    native.call("take", 0, path.job.now_us, native.call("out", 0), false)
    assert path.path["q_us"] == queue_us
    assert path.path["base_us"] == BASE_US


def test_without_a_mark_a_false_time_stamp_is_no_sample(native: Native) -> None:
    path = Rounds(native)
    path.write()
    before = int(path.path["next_step_ns"])
    path.job.now_us += BASE_US
    native.call("take", 0, path.job.now_us, native.call("out", 0), -1)
    assert path.path["next_step_ns"] == before
    assert path.path["base_us"] >= BASE_US


@pytest.mark.parametrize(("queue_us", "counts"), [(HIGH_US * 3, True), (HIGH_US * 5, False)])
def test_lone_packet_counts_unless_absurd(native: Native, queue_us: int, counts: bool) -> None:
    """It may have waited for a delayed ACK, 40 ms and more; a deep queue it may show."""
    path = Rounds(native)
    path.write()
    path.until_window(8)
    rtt = BASE_US + queue_us
    path.job.now_us += rtt
    before = int(path.path["q_us"])
    native.call("take", 0, path.job.now_us, 1, rtt)
    assert path.path["q_us"] == (queue_us if counts else before)


# ---- parked flows ----


@pytest.mark.parametrize("done", [0.0, 0.9, 0.97, 1.0])
def test_parked_flow_comes_back_the_sooner_the_less_is_left(native: Native, done: float) -> None:
    total = 1 << 28
    path = Rounds(native, flows=8, learned={"total_bytes": total})
    path.write()
    path.state["iteration_bytes"] = int(total * done)
    path.until_window(3)
    ratio = native.call("ratio_q10", int(path.state["iteration_bytes"]), total)
    most = native.call("pause_us", path.state, ratio)
    longest = 0.0
    for _ in range(40):
        path.state["yield_ns"] = 0
        path.state["unresponsive_ns"] = 0
        path.round(HIGH_US * 5 // 4)
        paused = [path.gap_us(flow) for flow in range(8) if path.pace(flow)]
        longest = max(longest, *paused)
    least = native.enums["HCC_PARK_MIN_US"]
    assert least * 0.99 <= longest <= most * 1.01
    assert path.path["awake"] == 1
    if done < 0.5:
        assert longest > 4 * least  # doubled again and again


def test_parked_flow_comes_back_soon_when_there_is_room(native: Native) -> None:
    path = Rounds(native, flows=2)
    path.write()
    path.until_window(3)
    for _ in range(100):
        path.state["yield_ns"] = 0
        path.round(HIGH_US * 9 // 8)
    parked = max(range(2), key=path.gap_us)
    least = native.enums["HCC_PARK_MIN_US"]
    assert path.gap_us(parked) > 4 * least
    # The queue is gone, but the window not large enough yet for both.
    path.path["persists"], path.path["window_q10"] = 1, 1024
    native.call("take", parked, path.job.now_us + 10, native.call("out", parked), BASE_US)
    assert path.gap_us(parked) == pytest.approx(least, rel=0.01)


@pytest.mark.parametrize("has_the_link", [True, False])
def test_parked_flows_have_a_part_of_a_link_that_the_job_has(
    native: Native, has_the_link: bool
) -> None:
    path = Rounds(native, flows=8)
    path.write()
    path.until_window(3)
    for _ in range(40):
        path.state["yield_ns"] = 0
        path.state["unresponsive_ns"] = 0
        path.round(HIGH_US * 9 // 8)
    parked = max(range(8), key=path.gap_us)
    before = path.gap_us(parked)
    packets, queue_us = 3, HIGH_US
    path.path["window_q10"] = packets * 1024
    path.path["flags"] = 0 if has_the_link else PATH_YIELDS
    path.path["persists"], path.path["awake"] = -2, 1
    # No step of the window is due: this acknowledgement only takes its share.
    path.path["next_step_ns"] = (path.job.now_us + 1_000_000) * 1000
    rtt = BASE_US + queue_us
    native.call("take", parked, path.job.now_us + 10, native.call("out", parked), rtt)
    # 8 flows with two packets each, in a quarter of the packets of each round trip.
    turn = 4 * 2 * 8 * rtt / packets
    assert turn < before
    assert path.gap_us(parked) == pytest.approx(turn if has_the_link else before, rel=0.02)


# ---- not steered ----


@pytest.mark.parametrize(("f", "growth"), [(0.25, 1.0), (2.0, 2.0)])
def test_beside_who_does_not_yield_growth_is_at_least_plain(
    native: Native, f: float, growth: float
) -> None:
    plain = native.enums["HCC_STANCE_PLAIN"]
    path = Rounds(native, conf={"f_q10": int(f * 1024)}, learned={"stance": plain})
    path.write()
    start = native.call("grow", 0, 0)
    acked = 0
    while native.call("grow", 0, 1) < start + 20:
        acked += 1
    exact = sum(start + n for n in range(20))  # a window of ACKs for every packet
    assert acked == pytest.approx(exact / growth, rel=0.05)


@pytest.mark.parametrize(
    ("change", "f"),
    [({"mode": "HCC_MODE_STATIC", "static_f_q10": 512}, 0.5), ({"mode": "HCC_MODE_OFF"}, 1.0)],
)
def test_other_modes_are_as_told(native: Native, change: dict[str, str | int], f: float) -> None:
    conf = {k: native.enums[v] if isinstance(v, str) else v for k, v in change.items()}
    path = Rounds(native, conf=conf, learned={"stance": native.enums["HCC_STANCE_PLAIN"]})
    path.write()
    start = native.call("grow", 0, 0)
    acked = 0
    while native.call("grow", 0, 1) < start + 10:
        acked += 1
    assert acked == pytest.approx(sum(start + n for n in range(10)) / f, rel=0.05)


def test_first_packets_of_an_iteration(native: Native) -> None:
    """One scout with a burst; the others send one packet, whose ACK wakes them on a free link."""
    path = Rounds(native, flows=4)
    path.write()
    assert [native.call("out", flow) for flow in range(4)] == [BURST, 1, 1, 1]
    pause = 4 * native.enums["HCC_PARK_MIN_US"]
    assert [path.gap_us(flow) for flow in range(4)] == [0, *[pytest.approx(pause, rel=0.01)] * 3]
    path.rounds(6, 0)
    assert path.path["awake"] == 4
    assert all(path.pace(flow) is None for flow in range(4))
    assert path.window * MSS > 20_000


def test_many_flows_begin_one_after_the_other(native: Native) -> None:
    """The scout has too little to fill a delayed ACK's 40 ms: second packets draw ACKs."""
    flows = 32
    path = Rounds(native, flows)
    path.write()
    least = native.call("scaled_pause_us", native.enums["HCC_PARK_MIN_US"], flows)
    gaps = [path.gap_us(flow) for flow in range(1, flows)]
    assert path.pace(0) is None
    assert all(4 * least / 16 * 0.99 <= gap <= 4 * least * 1.01 for gap in gaps)
    assert len({round(gap) for gap in gaps}) > 8
    assert [native.call("out", flow) for flow in range(flows)] == [BURST] * flows


@given(st.integers(1, 1 << 16), st.integers(0, 4096))
def test_many_flows_pause_longer(native: Native, pause_us: int, flows: int) -> None:
    """With the square of their number, but 40 ms at most."""
    few, longest = native.enums["HCC_FEW_FLOWS"], native.enums["HCC_PARK_MAX_US"]
    many = min(flows, 1024)
    expected = pause_us if flows <= few else min(pause_us * many**2 // few**2, longest)
    assert native.call("scaled_pause_us", pause_us, flows) == expected


def test_many_parked_flows_come_back_seldom_even_when_there_is_room(native: Native) -> None:
    flows = 32
    path = Rounds(native, flows)
    path.write()
    path.until_window(3)
    path.path["persists"], path.path["window_q10"], path.path["awake"] = 1, 1024, 1
    path.path["next_step_ns"] = (path.job.now_us + 1_000_000) * 1000
    parked = max(range(flows), key=path.gap_us)
    native.call("take", parked, path.job.now_us + 10, native.call("out", parked), BASE_US)
    assert path.gap_us(parked) == pytest.approx(4 * native.enums["HCC_PARK_MIN_US"], rel=0.01)
