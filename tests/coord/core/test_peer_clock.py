"""What a peer's clock shows, from round trips."""

from __future__ import annotations

import math
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostcc.coord.core.message import CLOCK_MAX
from hostcc.coord.core.peer_clock import DRIFT, MAX_AGE_S, NS, PeerClock, clock_time

pytestmark = pytest.mark.unit


@given(
    seed=st.integers(0, 2**32),
    offset=st.floats(-1e6, 1e6),
    drift=st.floats(-DRIFT / 2, DRIFT / 2),
    trips=st.integers(1, 30),
)
def test_the_offset_is_within_its_error(seed: int, offset: float, drift: float, trips: int) -> None:
    rng, clock, now = Random(seed), PeerClock(), 2e6
    for _ in range(trips):
        there, back = rng.expovariate(1000), rng.expovariate(1000)
        began, now = now, now + there + back
        theirs = (began + there) * (1 + drift) + offset
        clock.add(began, now, round(theirs * NS))
        now += rng.uniform(0, 20)
        found = clock.offset(now)
        assert found is not None
        assert abs(found.seconds - (now * drift + offset)) <= found.error_s + 1e-6


def test_the_shortest_round_trip_counts_until_it_is_old() -> None:
    clock = PeerClock()
    assert clock.offset(0.0) is None
    clock.add(10.0, 10.001, round(15.0004 * NS))
    clock.add(11.0, 11.1, round(16.09 * NS))
    found = clock.offset(11.1)
    assert found is not None
    assert found.seconds == pytest.approx(4.9999)
    assert found.error_s == pytest.approx(0.0005 + DRIFT * 1.0995)
    clock.add(310.0, 310.1, round(315.05 * NS))
    assert near(clock, 311.0, 5.0, 0.05 + DRIFT * 0.95)
    assert clock.offset(310.1 + MAX_AGE_S + 1) is None


def near(clock: PeerClock, now: float, seconds: float, error_s: float) -> bool:
    found = clock.offset(now)
    return found is not None and found == pytest.approx((seconds, error_s))


def test_a_clock_that_began_anew_replaces_what_was_known() -> None:
    clock = PeerClock()
    for at in range(5):
        clock.add(100.0 + at, 100.001 + at, round((900.0 + at) * NS))
    clock.add(110.0, 110.002, round(3.0 * NS))
    assert near(clock, 110.002, -107.001, 0.001 + DRIFT * 0.001)


@pytest.mark.parametrize(
    ("asked", "answered", "theirs"),
    [(2.0, 1.0, 5), (1.0, 2.0, 0), (0.0, 1e9, 5), (1.0, math.nan, 5), (1.0, 2.0, CLOCK_MAX + 1)],
)
def test_impossible_round_trips_are_ignored(asked: float, answered: float, theirs: int) -> None:
    clock = PeerClock()
    clock.add(asked, answered, theirs)
    assert clock.offset(2.0) is None


def test_clock_readings_that_no_message_can_carry_are_none() -> None:
    assert clock_time(1.5) == 1_500_000_000
    for now in (0.0, -1.0, math.nan, math.inf, 1e10):
        assert clock_time(now) == 0
