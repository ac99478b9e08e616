"""The unified circle: least common multiples, and what is near enough to one."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostcc.schedule.cassini import circle
from hostcc.schedule.cassini.circle import Pattern
from hostcc.schedule.errors import ViewError

pytestmark = pytest.mark.unit


@given(st.lists(st.integers(1, 30), min_size=1, max_size=4))
def test_whole_periods_have_their_least_common_multiple(periods: list[int]) -> None:
    common = math.lcm(*periods)
    if common > circle.MAX_ROUNDS * max(periods):
        return
    found = circle.unified_circle([float(period) for period in periods], 0.0)
    assert found.perimeter == pytest.approx(common, rel=1e-8)
    assert found.turns == tuple(common // period for period in periods)


@given(st.lists(st.floats(0.01, 10), min_size=1, max_size=4), st.floats(0.005, 0.2))
def test_every_period_fits_within_the_tolerance(periods: list[float], tolerance: float) -> None:
    try:
        found = circle.unified_circle(periods, tolerance)
    except ViewError:
        assert len(periods) > 2 or max(periods) > 100 * min(periods)
        return
    for period, turns in zip(periods, found.turns, strict=True):
        assert abs(found.perimeter / (turns * period) - 1) <= tolerance * (1 + 1e-6)
    assert found.perimeter >= max(periods) * (1 - tolerance)


@given(st.lists(st.floats(0.5, 2), min_size=2, max_size=3), st.floats(0.01, 0.1))
def test_no_shorter_circle_fits(periods: list[float], tolerance: float) -> None:
    found = circle.unified_circle(periods, tolerance)
    longest = max(periods)
    grid = np.arange(
        longest * (1 - tolerance), found.perimeter * (1 - tolerance) / (1 + tolerance), 1e-3
    )
    for perimeter in grid[:5000]:
        turns = [max(1, round(perimeter / period)) for period in periods]
        off = max(abs(perimeter / (t * p) - 1) for t, p in zip(turns, periods, strict=True))
        assert off > tolerance * (1 - 1e-6)


def test_nearly_equal_periods_are_equal() -> None:
    found = circle.unified_circle([0.100, 0.1005, 0.2003])
    assert found.turns == (2, 2, 1)
    assert found.error < 0.005


def test_what_has_no_common_multiple_is_refused() -> None:
    with pytest.raises(ViewError, match="common multiple"):
        circle.unified_circle([1.0, math.pi, math.e], 0.0)


@pytest.mark.parametrize("period", [0.0, -1.0, math.nan, math.inf])
def test_periods_that_cannot_be_are_refused(period: float) -> None:
    with pytest.raises(ViewError, match="period"):
        circle.unified_circle([1.0, period])
    with pytest.raises(ViewError, match="period"):
        circle.check(Pattern("j", period, ()))


@pytest.mark.parametrize(
    "phases", [((0.5, 0.4, 1.0),), ((0.0, 1.1, 1.0),), ((0.0, 0.5, 1.0), (0.4, 0.6, 1.0)),
               ((0.0, 0.5, math.nan),), ((0.0, 0.5, -1.0),), ((math.nan, 0.5, 1.0),)]
)  # fmt: skip
def test_phases_that_cannot_be_are_refused(phases: tuple[tuple[float, float, float], ...]) -> None:
    with pytest.raises(ViewError, match="phases"):
        circle.check(Pattern("j", 1.0, phases))


@given(st.floats(0, 0.5), st.floats(0, 0.5), st.integers(1, 7), st.integers(1, 300))
def test_the_parts_of_the_circle_add_up_to_what_is_sent(
    start: float, length: float, turns: int, count: int
) -> None:
    pattern = Pattern("j", 1.0, ((start, start + length, 3.0),))
    circle.check(pattern)
    curve = circle.demand(pattern, turns, count)
    assert curve.mean() == pytest.approx(3.0 * length, abs=1e-9)
    assert curve.min() >= -1e-9
    assert curve.max() <= 3.0 + 1e-9


def test_a_pattern_turns_as_often_as_it_has_iterations() -> None:
    curve = circle.demand(Pattern("j", 2.0, ((0.0, 1.0, 5.0),)), 3, 12)
    assert curve.tolist() == pytest.approx([5, 5, 0, 0] * 3)
