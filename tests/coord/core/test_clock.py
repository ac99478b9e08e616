"""Experienced time: it never runs backwards, and jumps count for little."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostcc.coord.core.clock import Clock

pytestmark = pytest.mark.unit


def test_ordinary_time_is_counted() -> None:
    clock = Clock(0.4)
    for step in range(11):
        clock.advance(100 + 0.2 * step)
    assert clock.now == pytest.approx(2.0)
    assert clock.lost_s == pytest.approx(0.0)


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=30))
def test_whatever_the_clock_says(times: list[float]) -> None:
    clock, before = Clock(0.4), 0.0
    for time in times:
        now = clock.advance(time)
        assert before <= now <= before + 0.4
        before = now


def test_what_a_step_was_cut_by() -> None:
    clock = Clock(0.4)
    clock.advance(0.0)
    assert clock.advance(600.0) == 0.4
    assert clock.lost_s == pytest.approx(599.6)
    assert clock.advance(0.0) == 0.4
    assert clock.advance(0.2) == pytest.approx(0.6)
