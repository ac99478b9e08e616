"""Boundaries, totals and stances as jobs of different habits teach them, on a made-up clock."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.mltcp.native_build import HOSTCC, RENO, SLOT, Native, NativeJob

SIZE = 2_000_000
GAP_US = 100_000
SETTLED = 12
"""Iterations after which everything about a regular job has to be known."""
variants = pytest.mark.parametrize("variant", [RENO, HOSTCC], ids=["reno", "hostcc"])


def stance(job: NativeJob) -> str:
    names = {v: k for k, v in job.native.enums.items() if k.startswith("HCC_STANCE_")}
    return names[int(job.state["stance"])].removeprefix("HCC_STANCE_")


@variants
@given(
    flows=st.integers(1, 32),
    size=st.integers(100_000, 10**8),
    gap_us=st.integers(10_000, 2_000_000),
    rtt_us=st.integers(20, 2000),
)
def test_regular_job(
    native: Native, variant: int, flows: int, size: int, gap_us: int, rtt_us: int
) -> None:
    job = NativeJob(native, flows, rtt_us, variant)
    for number in range(SETTLED):
        job.iteration(size)
        assert job.state["iterations"] == number
        assert job.state["busy"] == 0
        job.rest(gap_us)
    assert job.state["total_bytes"] == size
    assert job.state["bytes_acked"] == SETTLED * size
    assert job.state["period_ns"] == (gap_us + rtt_us) * 1000
    assert job.state["comm_ns"] == rtt_us * 1000
    assert job.state["usual_gap_ns"] == gap_us * 1000
    assert stance(job) == "SCALED"
    job.close()
    assert job.state["flows"] == 0


@variants
@pytest.mark.parametrize("bursts", [2, 4, *(pytest.param(n) for n in (8, 20))])
@pytest.mark.parametrize("pause_us", [GAP_US // 20, GAP_US // 8, GAP_US // 4])
def test_pauses_between_bursts_are_no_boundaries(
    native: Native, variant: int, bursts: int, pause_us: int
) -> None:
    job = NativeJob(native, variant=variant)
    for _ in range(SETTLED):
        job.iteration(SIZE, bursts, pause_us)
        job.rest(GAP_US)
    before = int(job.state["iterations"])
    for number in range(20):
        job.iteration(SIZE, bursts, pause_us)
        job.rest(GAP_US)
        assert job.state["iterations"] == before + 1 + number
        assert job.state["total_bytes"] == SIZE
    assert stance(job) == "SCALED"


@given(
    bursts=st.integers(1, 4),
    pause_us=st.integers(0, GAP_US // 4),
    gap_us=st.integers(GAP_US, 10**6),
)
def test_bursts_of_any_kind(native: Native, bursts: int, pause_us: int, gap_us: int) -> None:
    job = NativeJob(native)
    for _ in range(SETTLED):
        job.iteration(SIZE, bursts, pause_us)
        job.rest(gap_us)
    before = int(job.state["iterations"])
    for _ in range(10):
        job.iteration(SIZE, bursts, pause_us)
        job.rest(gap_us)
    assert job.state["iterations"] == before + 10
    assert job.state["total_bytes"] == SIZE


@given(outlier_us=st.integers(1, 10**9), jitter=st.randoms(use_true_random=False))
def test_one_outlier_costs_few_boundaries(
    native: Native, outlier_us: int, jitter: random.Random
) -> None:
    job = NativeJob(native)

    def iterate() -> None:
        job.iteration(SIZE)
        job.rest(int(GAP_US * jitter.uniform(0.9, 1.1)))

    for _ in range(SETTLED):
        iterate()
    job.iteration(SIZE)
    job.rest(GAP_US + outlier_us)
    before = int(job.state["iterations"])
    for _ in range(20):
        iterate()
    lost = before + 20 - int(job.state["iterations"])
    assert lost <= 3
    iterate()
    assert job.state["total_bytes"] == SIZE
    assert stance(job) == "SCALED"


@pytest.mark.parametrize("every", [50, 100])
def test_checkpoints_merge_no_iterations(native: Native, every: int) -> None:
    """However long they take: the silence of an iteration stays the usual one."""
    job, count = NativeJob(native), 400
    for number in range(1, count + 1):
        job.iteration(SIZE)
        job.rest(GAP_US if number % every else 50 * GAP_US)
    assert job.state["iterations"] == count - 1
    assert job.state["total_bytes"] == SIZE


@pytest.mark.parametrize("late", [0.02, 0.05, 0.1])
def test_time_outs_of_a_peer_merge_few_iterations(native: Native, late: float) -> None:
    """After losses a host of a ring waits for its peer's data, longer than it computes."""
    seen, seeds, count = 0, 10, 400
    for seed in range(seeds):
        spread = random.Random(seed)
        job = NativeJob(native, flows=8, rtt_us=17_000)
        for _ in range(count):
            job.burst(SIZE, spread_us=spread.randrange(90_000, 180_000))
            waits = spread.random() < late
            job.rest(
                spread.randrange(118_000, 126_000) + waits * spread.randrange(200_000, 300_000)
            )
        seen += int(job.state["iterations"])
    assert seen > 0.8 * seeds * count


def test_gap_that_became_short_is_found_again(native: Native) -> None:
    job = NativeJob(native)
    for gap_us in (1_000_000, 50_000):
        for _ in range(2 * SETTLED):
            job.iteration(SIZE)
            job.rest(gap_us)
    job.iteration(SIZE)
    assert job.state["total_bytes"] == SIZE
    assert job.state["period_ns"] == (50_000 + job.rtt_us) * 1000


@pytest.mark.parametrize("wait_us", [100, 1_000_000])
def test_first_iteration_begins_with_its_first_byte(native: Native, wait_us: int) -> None:
    job = NativeJob(native)
    job.dial()
    job.rest(wait_us)
    started = job.now_us
    job.iteration(SIZE)
    assert job.state["iteration_start_ns"] == started * 1000
    assert job.state["epoch"] > 0


def test_handshakes_are_no_iterations(native: Native) -> None:
    job = NativeJob(native, flows=4)
    for _ in range(10):
        job.burst(2000)
        job.rest(GAP_US)
    assert job.state["iterations"] == 0
    for _ in range(3):
        job.iteration(SIZE)
        job.rest(GAP_US)
    assert job.state["iterations"] == 2
    assert job.state["total_bytes"] == SIZE


@variants
@pytest.mark.parametrize("closed_us", [0, GAP_US // 4, GAP_US])
def test_a_message_while_it_computes_is_no_turn(
    native: Native, variant: int, closed_us: int
) -> None:
    """A process says that it lives: what begins, and waits at a closed gate, is the exchange."""
    job = NativeJob(native, variant=variant)
    for _ in range(SETTLED):
        job.iteration(SIZE)
        job.rest(GAP_US // 2)
    native.gates[SLOT]["armed"] = 1
    native.gates[SLOT]["closed_until_ns"] = (job.now_us + closed_us) * 1000
    job.burst(1000)
    job.rest(GAP_US // 2)
    for flow in range(job.flows):
        native.call("send", flow, variant, job.now_us, SIZE)
    waits = closed_us >= GAP_US
    kind = "HELD" if waits else "SENDING"
    assert job.state["burst"] == native.enums[f"HCC_BURST_{kind}"]
    assert not waits or job.state["held_since_ns"] == job.now_us * 1000


def test_given_silence_is_the_threshold(native: Native) -> None:
    job = NativeJob(native, conf={"silence_us": 30_000})
    for _ in range(10):
        job.iteration(SIZE, bursts=3, pause_us=29_000)
        job.rest(31_000)
    assert job.state["iterations"] == 9
    assert job.state["total_bytes"] == SIZE


def test_stalled_or_paced_flow_is_no_silence(native: Native) -> None:
    job = NativeJob(native, flows=2)
    for _ in range(SETTLED):
        job.iteration(SIZE)
        job.rest(GAP_US)
    before = int(job.state["iterations"])
    job.native.call("send", 0, RENO, job.now_us, 1000)
    for _ in range(5):
        job.rest(3 * GAP_US)
        job.native.call("send", 1, RENO, job.now_us, 50_000)
        job.native.call("ack", 1, RENO, job.now_us + job.rtt_us, job.rtt_us)
    assert job.state["iterations"] == before + 1
    assert job.state["busy"] == 1


def test_growing_job_is_followed(native: Native) -> None:
    job = NativeJob(native)
    for number in range(40):
        size = int(SIZE * 1.02**number)
        job.iteration(size)
        job.rest(GAP_US)
        if number > 3:
            assert stance(job) == "SCALED"


@variants
def test_job_of_random_sizes_is_left_alone(native: Native, variant: int) -> None:
    spread = random.Random(7)
    plain = 0
    job = NativeJob(native, variant=variant)
    for _ in range(300):
        job.iteration(int(10 ** spread.uniform(5, 8)))
        job.rest(int(10 ** spread.uniform(4.5, 5.5)))
        plain += stance(job) != "SCALED"
    assert plain > 0.9 * 300


@variants
@given(st.lists(st.floats(1.2, 20), min_size=6, max_size=40), st.integers(100_000, 10**6))
def test_sizes_that_never_repeat_are_not_trusted(
    native: Native, variant: int, factors: list[float], size: int
) -> None:
    job = NativeJob(native, variant=variant)
    for number, factor in enumerate(factors):
        job.iteration(int(size * factor) if number % 2 else size)
        job.rest(GAP_US)
        if job.state["iterations"] > 3:
            assert stance(job) == "LEARN"
            assert native.call("flow_f_q10", 0) == native.enums["HCC_ONE"]


def test_a_job_that_becomes_regular_is_scaled_again(native: Native) -> None:
    spread = random.Random(3)
    job = NativeJob(native)
    for _ in range(20):
        job.iteration(int(10 ** spread.uniform(5, 8)))
        job.rest(GAP_US)
    assert stance(job) == "LEARN"
    for _ in range(6):
        job.iteration(SIZE)
        job.rest(GAP_US)
    assert stance(job) == "SCALED"


def test_yielding_in_vain_is_retried_ever_more_rarely(native: Native) -> None:
    enums = native.enums
    state, conf = native.state(), native.conf()
    now, plain, lengths = 10**9, 0, []
    for _ in range(600):
        scaled = state["stance"] == enums["HCC_STANCE_SCALED"]
        scaled &= state["iterations"] >= enums["HCC_START_ITERATIONS"]  # forgiven before
        state["iteration_bytes"] = SIZE
        state["iteration_start_ns"], state["last_active_ns"] = now, now + 10**7
        # Yielding more than it would have waited, whenever it yields at all.
        state["yield_ns"] = native.call("patience_ns", state) + 1 if scaled else 0
        now += 10**8
        native.call("iteration_end", state, conf, now)
        if state["stance"] == enums["HCC_STANCE_PLAIN"]:
            plain += 1
        elif plain:
            lengths.append(plain)
            plain = 0
    first, most = enums["HCC_BACKOFF_FIRST"], enums["HCC_BACKOFF_MAX"]
    expected = [min(first << n, most) for n in range(len(lengths))]
    assert lengths == expected
    assert lengths.count(most) >= 2


def test_patience_returns_when_yielding_pays_again(native: Native) -> None:
    enums = native.enums
    state, conf = native.state(), native.conf()
    now = 10**9
    scaled = enums["HCC_STANCE_SCALED"]

    def end(yielded: int) -> None:
        nonlocal now
        state["iteration_bytes"] = SIZE
        state["iteration_start_ns"], state["last_active_ns"] = now, now + 10**7
        state["yield_ns"] = yielded
        now += 10**8
        native.call("iteration_end", state, conf, now)

    for _ in range(5):
        end(0)
    assert state["stance"] == scaled
    for _ in range(3):  # three refusals in a row
        while state["stance"] != scaled:
            end(0)
        end(native.call("patience_ns", state) + 1)
    assert state["backoff"] == enums["HCC_BACKOFF_FIRST"] * 4
    for _ in range(4 * int(state["backoff"])):
        end(0)
    assert state["stance"] == scaled
    assert state["backoff"] == 0


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans(), st.integers(0, 300_000)), max_size=60))
def test_counters_never_leak(native: Native, script: list[tuple[int, bool, int]]) -> None:
    """Whatever flows do, when they are closed nobody is busy, open or awake."""
    for variant in (RENO, HOSTCC):
        job = NativeJob(native, flows=6, variant=variant)
        for flow, send, wait_us in script:
            job.rest(wait_us)
            if send:
                native.call("send", flow, variant, job.now_us, 10_000)
            else:
                native.call("ack", flow, variant, job.now_us, 500)
            assert job.state["busy"] <= job.state["flows"] == 6
            assert native.paths["awake"].max() <= 6
        job.close()
        assert job.state["busy"] == job.state["flows"] == 0
        assert native.paths["awake"].max() == 0


@given(st.integers(1, 10**6), st.lists(st.integers(0, 100), min_size=1, max_size=50))
def test_scaling_loses_no_fraction(native: Native, f_q10: int, acked: list[int]) -> None:
    NativeJob(native)
    scaled = sum(native.call("scale_acked", 0, count, f_q10) for count in acked)
    exact = sum(acked) * f_q10 / native.enums["HCC_ONE"]
    assert exact - 1 < scaled <= exact


def test_f_of_a_flow(native: Native) -> None:
    """What F a socket is given, by mode, stance, sign of life and scope."""
    enums = native.enums
    one = enums["HCC_ONE"]
    table = [256 + 56 * i for i in range(enums["HCC_F_POINTS"])]
    job = NativeJob(native, flows=2, conf={"f_q10": table, "static_f_q10": 3000})
    conf = native.confs[SLOT]

    def f() -> int:
        return native.call("flow_f_q10", 0)

    assert f() == one
    for _ in range(3):
        job.iteration(SIZE)
        job.rest(GAP_US)
    job.burst(SIZE // 2)
    assert f() == table[16]
    job.native.call("send", 1, RENO, job.now_us, SIZE // 4)
    job.native.call("ack", 1, RENO, job.now_us + 10, job.rtt_us)
    assert f() == table[24]
    conf["scope"] = enums["HCC_SCOPE_FLOW"]
    assert f() == table[16]
    conf["mode"] = enums["HCC_MODE_STATIC"]
    assert f() == 3000
    native.states[SLOT]["stance"] = enums["HCC_STANCE_PLAIN"]
    assert f() == 3000
    conf["mode"] = enums["HCC_MODE_MLTCP"]
    assert f() == table[16]  # not yielding is no reason not to be scaled
    native.states[SLOT]["stance"] = enums["HCC_STANCE_LEARN"]
    assert f() == one
    native.states[SLOT]["stance"] = enums["HCC_STANCE_SCALED"]
    assert f() == table[16]
    conf["mode"] = enums["HCC_MODE_OFF"]
    assert f() == one


def test_a_flow_knows_its_progress_beyond_four_gigabytes(native: Native) -> None:
    """Its bytes_ratio rises to one once, however often 32 bits would begin anew."""
    one, pieces, piece = native.enums["HCC_ONE"], 20, 500_000_000
    conf = {
        "scope": native.enums["HCC_SCOPE_FLOW"],
        "f_q10": [one + one * i // 32 for i in range(native.enums["HCC_F_POINTS"])],
    }
    job = NativeJob(native, flows=1, conf=conf)
    factors = []
    for number in range(4 * pieces):
        job.burst(piece)
        factors.append(native.call("flow_f_q10", 0))
        if number % pieces == pieces - 1:
            job.rest(GAP_US)
    wanted = [one + one * (number + 1) / pieces for number in range(pieces)]
    assert factors[-pieces:] == pytest.approx(wanted, abs=2)
