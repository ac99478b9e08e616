"""What is told of jobs changes only with what is known of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hostcc.daemon.gossip.hysteresis import (
    CONFIRM_S,
    MAX_DOUBLINGS,
    PublishedProfile,
    step,
)
from hostcc.daemon.gossip.profile_records import KEEP_S
from hostcc.model import JobProfile

pytestmark = pytest.mark.unit

SURE = JobProfile("j", 0.1, 0.1, 1e12, 1.0, period_s=0.25, bytes_to=(("b", 1e6),), confidence=0.9)
GUESS = replace(SURE, compute_s=1.0, comm_start_s=0.0, period_s=1.0, confidence=0.0,
                bytes_to=(("b", 4.2e6),))  # fmt: skip


def nobody(_: str) -> JobProfile | None:
    return None


def told(held: dict[str, PublishedProfile], one: JobProfile, now: float) -> JobProfile:
    held.update(step(held, [one], nobody, now))
    return held["j"].profile


def test_a_guess_is_told_until_it_is_known() -> None:
    held: dict[str, PublishedProfile] = {}
    assert told(held, GUESS, 0.0) is GUESS
    assert told(held, SURE, 1.0) is SURE


def test_what_was_known_outlives_a_moment_of_doubt() -> None:
    held: dict[str, PublishedProfile] = {}
    told(held, SURE, 0.0)
    assert told(held, GUESS, KEEP_S) is SURE
    assert told(held, GUESS, KEEP_S + 1) is GUESS


def test_a_guess_that_says_the_same_changes_nothing() -> None:
    held: dict[str, PublishedProfile] = {}
    told(held, GUESS, 0.0)
    for at in range(1, 60):
        a_little = replace(GUESS, bytes_to=(("b", 4.2e6 * (1.3 if at % 2 else 0.8)), ("c", 9.0)))
        assert told(held, a_little, float(at)) is GUESS


@pytest.mark.parametrize("first", [GUESS, SURE])
@pytest.mark.parametrize(
    "change",
    [
        {"bytes_to": (("b", 9e6),)},
        {"bytes_to": (("b", 2e6), ("c", 2e6))},
        {"period_s": 0.5},
        {"comm_start_s": 0.01},
        {"work": 5e12},
        {"work": 0.0},
        {"assumed_flop_per_s": 1e15},
        {"weight": 2.0},
    ],
)
def test_something_else_is_told_once_it_was_said_for_a_while(
    first: JobProfile, change: dict[str, object]
) -> None:
    held: dict[str, PublishedProfile] = {}
    first = replace(first, comm_start_s=0.1)
    other = replace(first, **change)  # type: ignore[arg-type]
    told(held, first, 0.0)
    assert told(held, other, 1.0) is first
    assert told(held, first, 2.0) is first
    assert told(held, other, 3.0) is first
    assert told(held, other, 2.9 + CONFIRM_S) is first
    assert told(held, other, 3.0 + CONFIRM_S) is other


def test_a_mere_rate_gives_way_at_once() -> None:
    held: dict[str, PublishedProfile] = {}
    told(held, GUESS, 0.0)
    bursts = replace(GUESS, comm_start_s=0.1, compute_s=0.1, period_s=0.25)
    assert told(held, bursts, 0.5) is bursts


@pytest.mark.parametrize(
    "change", [{"period_s": 0.28}, {"slowdown": 1.4}, {"phase_s": 0.1}, {"confidence": 0.8}]
)
def test_a_measurement_that_is_about_the_same_changes_nothing(change: dict[str, float]) -> None:
    held: dict[str, PublishedProfile] = {}
    told(held, SURE, 0.0)
    for at in range(1, 60):
        assert told(held, replace(SURE, **change), float(at)) is SURE  # type: ignore[arg-type]


def test_what_changes_again_and_again_is_believed_later_each_time() -> None:
    held: dict[str, PublishedProfile] = {}
    told(held, GUESS, 0.0)
    at, waits = 0.0, []
    for number in range(MAX_DOUBLINGS + 3):
        other = replace(SURE, period_s=0.5 if number % 2 else 0.25)
        began = at
        while told(held, other, at) is not other:
            at += 0.5
        waits.append(at - began)
        at += 0.5
    doubled = [CONFIRM_S * 2**step for step in range(1, MAX_DOUBLINGS + 1)]
    assert waits == [0.0, CONFIRM_S, *doubled, doubled[-1]]


def test_what_changed_lately_changes_at_the_same_time_as_on_other_hosts() -> None:
    held: dict[str, PublishedProfile] = {}
    other = replace(SURE, period_s=0.5)
    told(held, GUESS, 0.0)
    told(held, SURE, 1.0)
    for at in range(2, 50):
        held.update(step(held, [other], nobody, float(at), turn=False))
        assert held["j"].profile is SURE
    assert told(held, other, 50.0) is other
    held.update(step(held, [SURE], nobody, 150.0, turn=False))
    held.update(step(held, [SURE], nobody, 150.0 + CONFIRM_S, turn=False))
    assert held["j"].profile is SURE  # it was calm


def test_once_it_was_calm_a_change_is_believed_as_soon_as_ever() -> None:
    held: dict[str, PublishedProfile] = {}
    told(held, SURE, 0.0)
    for at in (0.0, 100.0, 200.0):
        other = replace(SURE, period_s=0.5 + at)
        told(held, other, at)
        assert told(held, other, at + CONFIRM_S) is other


def test_a_guess_takes_the_iteration_that_others_have_measured() -> None:
    (held,) = step({}, [GUESS], lambda _: SURE, 0.0).values()
    got = held.profile
    assert (got.period_s, got.compute_s, got.comm_start_s) == (0.25, 0.1, 0.1)
    assert dict(got.bytes_to) == pytest.approx({"b": 4.2e6 / 4})
    assert got.confidence == 0.0
    (held,) = step({}, [GUESS], lambda _: replace(SURE, confidence=0.0), 0.0).values()
    assert held.profile is GUESS


RECALLED = replace(SURE, recalled=True)


def test_what_is_recalled_stays_when_it_is_measured_again() -> None:
    held: dict[str, PublishedProfile] = {}
    assert told(held, RECALLED, 0.0) is RECALLED
    about_the_same = replace(SURE, period_s=0.27, confidence=0.8)
    assert told(held, about_the_same, 5.0) == SURE
    assert held["j"].changes == 0
    # From then on it is a measurement like any other.
    assert told(held, GUESS, 6.0) == SURE
    assert told(held, RECALLED, 7.0) == SURE
    other = replace(SURE, period_s=0.5)
    assert told(held, other, 8.0) == SURE
    assert told(held, other, 8.0 + CONFIRM_S) is other


@pytest.mark.parametrize("fresh", [GUESS, replace(SURE, period_s=0.3)])
def test_what_is_recalled_goes_at_once_when_it_is_wrong(fresh: JobProfile) -> None:
    held: dict[str, PublishedProfile] = {}
    told(held, RECALLED, 0.0)
    assert told(held, fresh, 0.5) is fresh


def test_what_is_recalled_is_better_than_a_guess() -> None:
    held: dict[str, PublishedProfile] = {}
    told(held, GUESS, 0.0)
    assert told(held, RECALLED, 0.5) is RECALLED
    assert told(held, GUESS, 1.0) is GUESS
