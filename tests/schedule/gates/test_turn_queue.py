"""The queue of a group: who waits for whom, whatever is heard, late or never; and what it gains."""

from __future__ import annotations

import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostcc.schedule.gates.turn_queue import (
    GRACE_S,
    IN_STEP_S,
    MAX_BURST_RATIO,
    MAX_WAIT_S,
    TurnQueue,
)

pytestmark = pytest.mark.unit

BURST_S = 0.088
COMPUTE_S = 0.132
JOBS = ("a", "b", "c")


def closed(queue: TurnQueue, job: str, now_s: float) -> bool:
    rivals = [name for name in JOBS if name != job]
    return queue.closed_until_s(job, rivals, now_s) > now_s


def test_a_job_is_closed_while_a_rival_sends_and_open_after_it() -> None:
    queue = TurnQueue().begin("a", 10.0, BURST_S, JOBS)
    assert queue.closed_until_s("b", ["a"], 10.0) == pytest.approx(10.0 + 1.5 * BURST_S)
    assert not closed(queue, "a", 10.0)
    assert queue.closed_until_s("b", ["c"], 10.0) <= 10.0, "no rival of it sends"
    assert not closed(queue.end("a", 10.05), "b", 10.05)


def test_who_never_says_that_it_is_over_holds_for_one_and_a_half_bursts() -> None:
    queue = TurnQueue().begin("a", 10.0, BURST_S, JOBS)
    assert closed(queue, "b", 10.0 + 1.49 * BURST_S)
    assert not closed(queue, "b", 10.0 + 1.51 * BURST_S)


def test_the_first_who_waits_goes_first() -> None:
    queue = TurnQueue().begin("a", 10.0, BURST_S, JOBS)
    queue = queue.wait("c", 10.01, BURST_S).wait("b", 10.02, BURST_S)
    free = queue.end("a", 10.08)
    assert not closed(free, "c", 10.08)
    assert closed(free, "b", 10.08)
    assert closed(free, "a", 10.08), "it has begun anew before those who waited"
    sending = free.begin("c", 10.081, BURST_S, JOBS)
    assert closed(sending, "b", 10.09)
    assert not closed(sending.end("c", 10.17), "b", 10.17)


def test_who_is_next_and_does_not_go_is_passed() -> None:
    queue = TurnQueue().begin("a", 10.0, BURST_S, JOBS).wait("c", 10.01, BURST_S).end("a", 10.08)
    assert closed(queue, "b", 10.08)
    assert not closed(queue, "b", 10.08 + 1.01 * GRACE_S)


def test_a_job_that_sends_is_not_stopped_by_another() -> None:
    both = TurnQueue().begin("a", 10.0, BURST_S, JOBS).begin("b", 10.01, BURST_S, JOBS)
    assert not closed(both, "a", 10.02)
    assert not closed(both, "b", 10.02)
    assert closed(both, "c", 10.02)


def test_a_job_that_has_gone_is_forgotten() -> None:
    queue = TurnQueue().begin("a", 10.0, BURST_S, JOBS).wait("b", 10.0, BURST_S)
    assert set(queue.keep(["b"]).turns) == {"b"}
    assert queue.keep(["a", "b", "c"]) is queue
    later = queue.begin("c", 10.0 + 2 * MAX_WAIT_S + BURST_S, BURST_S, JOBS)
    assert set(later.turns) == {"c"}


STEP = st.tuples(
    st.sampled_from(["begin", "wait", "end", "pass"]),
    st.sampled_from(JOBS),
    st.floats(0, 0.3),
    st.floats(0.001, 1.0),
)


@given(st.lists(STEP, max_size=40))
def test_no_gate_is_closed_beyond_the_bound_and_somebody_may_always_go(
    steps: Sequence[tuple[str, str, float, float]],
) -> None:
    queue, now_s = TurnQueue(), 100.0
    for what, job, later_s, expected_s in steps:
        now_s += later_s
        if what == "begin":
            queue = queue.begin(job, now_s, expected_s, JOBS)
        elif what == "wait":
            queue = queue.wait(job, now_s, expected_s)
        elif what == "end":
            queue = queue.end(job, now_s)
        until_s = {
            name: queue.closed_until_s(name, [one for one in JOBS if one != name], now_s)
            for name in JOBS
        }
        assert min(until_s.values()) <= now_s, "all wait for each other"
        for name in JOBS:
            held = queue if name in queue.turns else queue.wait(name, now_s, 0.1)
            bound_s = MAX_BURST_RATIO * 1.0 + GRACE_S
            rivals = [one for one in JOBS if one != name]
            assert held.closed_until_s(name, rivals, now_s) <= now_s + bound_s
            # Nothing is heard any more: everybody is free after one burst.
            assert not closed(held, name, now_s + bound_s + GRACE_S)


def test_of_two_in_step_one_lets_the_other_go_first_once() -> None:
    """A job that is held, since a burst of its rival is to come, goes 10 ms later if none does."""
    both = (
        TurnQueue()
        .begin("b", 10.0, BURST_S, JOBS)
        .begin("a", 10.0 + 0.9 * IN_STEP_S, BURST_S, JOBS)
    )
    over = both.end("a", 10.2).end("b", 10.21)
    assert closed(over, "b", 10.3)
    assert not closed(over, "a", 10.3)
    assert over.closed_until_s("b", ["c"], 10.3) <= 10.3, "it is no rival of it"
    held = over.wait("b", 10.34, BURST_S)
    assert not closed(held, "a", 10.342)
    first = held.begin("a", 10.342, BURST_S, JOBS)
    assert closed(first, "b", 10.4)
    assert not closed(first.end("a", 10.43), "b", 10.43)
    assert closed(held, "b", 10.34 + 0.9 * IN_STEP_S)
    assert not closed(held, "b", 10.34 + 1.1 * IN_STEP_S)


@pytest.mark.parametrize("what", ["it sends", "the other one was ahead", "the other one has gone"])
def test_what_ends_the_step(what: str) -> None:
    both = TurnQueue().begin("a", 10.0, BURST_S, JOBS).begin("b", 10.0, BURST_S, JOBS)
    over = both.end("a", 10.2).end("b", 10.2)
    if what == "it sends":
        after = over.begin("b", 10.4, BURST_S, JOBS).end("b", 10.5)
    elif what == "the other one was ahead":
        after = over.begin("a", 10.35, BURST_S, JOBS).end("a", 10.44)
    else:
        after = over.keep(["b", "c"])
    assert not closed(after, "b", 10.6)


def test_jobs_that_begin_one_after_the_other_are_not_in_step() -> None:
    """The later one was not held: news came late, or its burst was an odd one."""
    both = (
        TurnQueue()
        .begin("a", 10.0, BURST_S, JOBS)
        .begin("b", 10.0 + 1.1 * IN_STEP_S, BURST_S, JOBS)
    )
    assert both.concessions == {}


# A fluid simulation: jobs share a link fairly, or wait for each other with late news.


@dataclass
class Side:
    """A job with its own queue, which hears of the others `late_s` after it happened."""

    name: str
    compute_s: float
    burst_s: float
    starts_s: float
    queue: TurnQueue = field(default_factory=TurnQueue)
    left_s: float = 0.0
    """Of its burst, alone."""
    waits_since_s: float | None = None
    times: list[float] = field(default_factory=list)
    began_s: float = 0.0
    held_s: float = 0.0
    rivals: list[str] = field(default_factory=list)


STEP_S = 0.001
SCATTER = 0.12


def simulate(
    jobs: int,
    share: float,
    late_s: float | None,
    iterations: int,
    scatter: float = SCATTER,
    *,
    chain: bool = False,
) -> tuple[float, float]:
    """Jobs that send `share` of the time over one link, or each over those of its neighbours.

    late_s None: fair sharing.  Returns mean iteration time over that alone, and the share of time
    held.
    """
    rng = random.Random(1)
    period_s = COMPUTE_S + BURST_S
    burst_s, compute_s = share * period_s, (1 - share) * period_s
    sides = [Side(f"j{n}", compute_s, burst_s, compute_s) for n in range(jobs)]
    for first, one in enumerate(sides):
        one.rivals = [
            other.name
            for second, other in enumerate(sides)
            if other is not one and (not chain or abs(first - second) == 1)
        ]
    meets = {one.name: one.rivals for one in sides}
    news: list[tuple[float, str, str]] = []
    now_s = 0.0
    while min(len(side.times) for side in sides) < iterations:
        now_s += STEP_S
        due = [one for one in news if one[0] <= now_s]
        news = [one for one in news if one[0] > now_s]
        for _, what, name in due:
            for side in sides:
                side.queue = hear(side.queue, what, name, now_s, burst_s, meets[name])
        for side in sides:
            if side.left_s <= 0 and now_s >= side.starts_s:
                start(side, news, now_s, late_s)
        senders = [side for side in sides if side.left_s > 0]
        sending = {side.name for side in senders}
        for side in senders:
            beside = len(sending.intersection(side.rivals))
            side.left_s -= STEP_S / (1 + min(beside, 1) if chain else 1 + beside)
            if side.left_s <= 0:
                tell(side, "end", news, now_s, late_s)
                side.times.append(now_s - side.began_s)
                side.began_s = now_s
                side.starts_s = now_s + compute_s * rng.uniform(1 - scatter, 1 + scatter)
    usual = [time_s for side in sides for time_s in side.times[5:]]
    held = sum(side.held_s for side in sides) / len(sides) / now_s
    return statistics.fmean(usual) / period_s, held


def start(
    side: Side,
    news: list[tuple[float, str, str]],
    now_s: float,
    late_s: float | None,
) -> None:
    if late_s is not None and side.queue.closed_until_s(side.name, side.rivals, now_s) > now_s:
        side.held_s += STEP_S
        if side.waits_since_s is None:
            side.waits_since_s = now_s
            tell(side, "wait", news, now_s, late_s)
        return
    side.waits_since_s = None
    side.left_s = side.burst_s
    tell(side, "begin", news, now_s, late_s)


def tell(
    side: Side,
    what: str,
    news: list[tuple[float, str, str]],
    now_s: float,
    late_s: float | None,
) -> None:
    side.queue = hear(side.queue, what, side.name, now_s, side.burst_s, side.rivals)
    if late_s is not None:
        news.append((now_s + late_s, what, side.name))


def hear(
    queue: TurnQueue, what: str, name: str, now_s: float, burst_s: float, rivals: Sequence[str]
) -> TurnQueue:
    if what == "begin":
        return queue.begin(name, now_s, burst_s, rivals)
    return queue.wait(name, now_s, burst_s) if what == "wait" else queue.end(name, now_s)


@pytest.mark.parametrize("late_s", [0.0, 0.005])
def test_two_jobs_that_fit_gain(late_s: float) -> None:
    fair, _ = simulate(2, 0.4, None, 150)
    turns, held = simulate(2, 0.4, late_s, 150)
    assert fair > 1.1
    assert turns < 1.06
    assert held < 0.05


@pytest.mark.parametrize(("jobs", "share"), [(2, 0.4), (3, 0.28), (6, 0.15)])
def test_jobs_without_any_variation_part(jobs: int, share: float) -> None:
    """They begin together, and news come later than that."""
    fair, _ = simulate(jobs, share, None, 40, scatter=0.0)
    assert fair == pytest.approx(1 + (jobs - 1) * share, rel=0.02)
    turns, held = simulate(jobs, share, 0.005, 40, scatter=0.0)
    assert turns < 1.03
    assert held < 0.05


@pytest.mark.parametrize(("jobs", "share"), [(3, 0.28), (6, 0.15)])
def test_more_jobs_gain(jobs: int, share: float) -> None:
    fair, _ = simulate(jobs, share, None, 80)
    turns, held = simulate(jobs, share, 0.002, 80)
    assert turns < fair - 0.03
    assert held < 0.1


def test_jobs_on_a_chain_of_links_part() -> None:
    """Each but the last shares a link with the next: those in between see more than fits one."""
    fair, _ = simulate(3, 0.4, None, 80, chain=True)
    turns, held = simulate(3, 0.4, 0.005, 80, chain=True)
    assert fair > 1.15
    assert turns < 1.03
    assert held < 0.05
