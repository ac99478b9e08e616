"""hostcc/bpf/programs/boundary.h: where iterations end by a hint, and when a hint is dropped."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.mltcp.native_build import RENO, Native, NativeJob

SHORT, PAUSE, END = range(3)
MS = 1_000_000
HINT = {
    "hint_id": 7,
    "hint_period_us": 240_000,
    "hint_silence_us": 60_000,
    "hint_pause_us": 20_000,
    "hint_bytes": 2_000_000,
    "hint_margin_bytes": 100_000,
}
"""Of a job that sends eight bursts of 250 kB and computes for 100 ms."""
STARTED_NS = 10**12


def judged(
    native: Native, sent: int, gap_ms: float, elapsed_ms: float, **conf: int
) -> tuple[int, npt.NDArray[np.void]]:
    state = native.state(iteration_start_ns=STARTED_NS, iteration_bytes=sent)
    now_ns = STARTED_NS + int(elapsed_ms * MS)
    return native.call(
        "judge_silence", state, native.conf(**{**HINT, **conf}), int(gap_ms * MS), now_ns, 200
    ), state


@pytest.mark.parametrize(
    ("sent", "gap_ms", "elapsed_ms", "what"),
    [
        (2_000_000, 100, 240, END),
        (2_000_000, 100, 150, END),  # all is sent: it was quick
        (1_500_000, 100, 215, END),  # it is due, and sends less than it did
        (1_500_000, 100, 200, PAUSE),  # somebody is late within an iteration
        (2_000_000, 30, 240, END),  # a short silence, right where the bytes end
        (1_900_001, 20, 150, END),
        (2_099_999, 20, 150, END),
        (1_899_999, 59, 240, PAUSE),  # the last burst but one
        (2_100_001, 59, 240, PAUSE),  # the end was missed: the next long silence is one
        (2_100_001, 60, 240, END),
        (2_000_000, 19, 240, SHORT),
        (500_000, 30, 100, PAUSE),
        (500_000, 3, 100, SHORT),
    ],
)
def test_an_end_by_the_hint(
    native: Native, sent: int, gap_ms: float, elapsed_ms: float, what: int
) -> None:
    assert judged(native, sent, gap_ms, elapsed_ms)[0] == what


def test_bytes_that_are_not_known_end_nothing(native: Native) -> None:
    assert judged(native, 2_000_000, 100, 200, hint_margin_bytes=0)[0] == PAUSE
    assert judged(native, 2_000_000, 30, 240, hint_margin_bytes=0)[0] == PAUSE
    assert judged(native, 2_000_000, 100, 240, hint_margin_bytes=0)[0] == END


@given(st.integers(0, 2**40), st.integers(0, 10**12), st.integers(0, 10**12))
def test_without_a_hint_it_is_as_it_was(
    native: Native, sent: int, gap_ns: int, usual_ns: int
) -> None:
    """By half of the usual longest silence, and by what the owner has given."""
    for given_us in (0, 30_000):
        state = native.state(
            iteration_start_ns=STARTED_NS, iteration_bytes=sent, usual_gap_ns=usual_ns
        )
        conf = native.conf(silence_us=given_us)
        what = native.call("judge_silence", state, conf, gap_ns, STARTED_NS + 2 * gap_ns, 200)
        if gap_ns < native.call("min_silence_ns", 200):
            assert what == SHORT
        else:
            assert what == PAUSE + (gap_ns > native.call("silence_ns", state, conf, 200))


def test_a_wrong_hint_is_dropped_until_there_is_another_one(native: Native) -> None:
    """Bursts that come for longer than four periods, and never a silence as long as the hint's."""
    what, state = judged(native, 500_000, 30, 4 * 240)
    assert (what, int(state["hint_dropped"])) == (PAUSE, 0)
    what, state = judged(native, 500_000, 30, 4 * 240 + 1)
    assert (what, int(state["hint_dropped"])) == (END, HINT["hint_id"])  # as without one
    conf = native.conf(**HINT)
    assert native.call("judge_silence", state, conf, 30 * MS, STARTED_NS + 100 * MS, 200) == END
    conf["hint_id"] += 1
    assert native.call("judge_silence", state, conf, 30 * MS, STARTED_NS + 100 * MS, 200) == PAUSE
    conf["hint_id"] = 0  # taken back
    assert native.call("judge_silence", state, conf, 30 * MS, STARTED_NS + 100 * MS, 200) == END


def test_without_the_agent_no_hint_is_in_force(native: Native) -> None:
    """Nobody keeps it current then; it comes back, not dropped, with the agent."""
    native.call("end_agent")
    try:
        what, state = judged(native, 500_000, 30, 5 * 240)
        assert (what, int(state["hint_dropped"])) == (END, 0)
        native.call("learn_silence", state, native.conf(**HINT), 40 * MS, STARTED_NS, PAUSE)
        assert state["usual_gap_ns"] == 40 * MS
    finally:
        native.call("reset")
    assert judged(native, 500_000, 30, 100)[0] == PAUSE


def test_a_long_break_drops_no_hint(native: Native) -> None:
    what, state = judged(native, 1000, 5, 100_000)  # a handshake, long ago
    assert (what, int(state["hint_dropped"])) == (SHORT, 0)
    what, state = judged(native, 2_000_000, 10_000, 10_240)
    assert (what, int(state["hint_dropped"])) == (END, 0)


def test_the_silence_of_a_start_is_forgotten(native: Native) -> None:
    state, conf = native.state(usual_gap_ns=5000 * MS), native.conf(**HINT)
    for _ in range(16):
        native.call("learn_silence", state, conf, 100 * MS, STARTED_NS, END)
        native.call("learn_silence", state, conf, 20 * MS, STARTED_NS, PAUSE)
    assert 100 * MS <= state["usual_gap_ns"] < 200 * MS
    native.call("learn_silence", state, conf, 60_000 * MS, STARTED_NS, END)  # an odd one
    assert state["usual_gap_ns"] < 260 * MS


def test_a_first_silence_that_is_much_longer_is_forgotten_without_a_hint(native: Native) -> None:
    """Of a job's start: with half of it as the threshold, no iteration would ever end."""
    job = NativeJob(native, variant=RENO)
    job.iteration(200_000)
    job.rest(3_000_000)
    for _ in range(40):
        job.iteration(2_000_000)
        job.rest(100_000)
    assert job.state["iterations"] >= 20


class HintedJob(NativeJob):
    """A job that has the hint from its first byte on."""

    def __init__(self, native: Native, flows: int = 1, **conf: Any) -> None:
        super().__init__(native, flows=flows, variant=RENO, conf={**HINT, **conf})

    def train(self, gaps_us: list[int], pause_us: int) -> int:
        """Iterations of eight bursts, with these silences after them; how many were seen to end."""
        before = int(self.state["iterations"])
        for gap_us in gaps_us:
            self.iteration(2_000_000, bursts=8, pause_us=pause_us)
            self.rest(gap_us)
        return int(self.state["iterations"]) - before


def test_silences_that_differ_end_iterations_all_the_same(native: Native) -> None:
    """Half of the usual longest silence finds some of these ends only."""
    gaps_us = [100_000, 100_000, 100_000, 25_000] * 10
    seen = []
    for number in (HINT["hint_id"], 0):
        job = HintedJob(native, hint_id=number)
        job.train([100_000] * 5, 15_000)
        seen.append(job.train(gaps_us, 15_000))
    assert seen[0] == len(gaps_us)
    assert seen[1] < 0.8 * len(gaps_us)


def test_a_job_that_has_changed_is_learned_anew(native: Native) -> None:
    """Twice as many bytes, in bursts that look like nothing that the hint says."""
    job = HintedJob(native, hint_silence_us=900_000)
    assert job.train([100_000] * 5, 15_000) == 4  # the last one has not ended
    for _ in range(12):
        job.iteration(6_000_000, bursts=3, pause_us=5_000)
        job.rest(100_000)
    assert job.state["hint_dropped"] == HINT["hint_id"]
    seen = int(job.state["iterations"])
    for _ in range(5):
        job.iteration(6_000_000, bursts=3, pause_us=5_000)
        job.rest(100_000)
    assert job.state["iterations"] - seen == 5
    assert job.state["total_bytes"] == 6_000_000


@pytest.mark.parametrize(
    ("stuck", "gap_us", "conf", "seen"),
    [
        (90_000, 100_000, {}, 1),
        (90_000, 50_000, {}, 0),  # such silences are within iterations, too
        (110_000, 100_000, {}, 0),  # too much is missing
        (90_000, 100_000, {"hint_margin_bytes": 0}, 0),
        (90_000, 100_000, {"hint_id": 0}, 0),
    ],
)
def test_a_flow_that_waits_for_its_last_acknowledgement_hides_no_end(
    native: Native, stuck: int, gap_us: int, conf: dict[str, int], seen: int
) -> None:
    job = HintedJob(native, flows=2, **conf)
    job.train([100_000] * 5, 5_000)
    native.call("send", 1, RENO, job.now_us, stuck)
    native.call("send", 0, RENO, job.now_us, 2_000_000 - stuck)
    before = int(job.state["iterations"])
    job.rest(200)
    native.call("ack", 0, RENO, job.now_us, 200)
    job.rest(gap_us)
    native.call("send", 0, RENO, job.now_us, 1_000_000)
    assert job.state["iterations"] == before + seen
    native.call("ack", 1, RENO, job.now_us, 200)
    assert not seen or job.state["iteration_bytes"] == stuck
