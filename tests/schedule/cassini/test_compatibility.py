"""Compatibility scores: exact beside brute force, known cases, fast on many jobs."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostcc.schedule.cassini import circle, compatibility
from hostcc.schedule.cassini.circle import Pattern
from hostcc.schedule.errors import ViewError

pytestmark = pytest.mark.unit


def half(job: str, period: float = 1.0, share: float = 0.5, rate: float = 1.0) -> Pattern:
    return Pattern(job, period, ((0.0, share * period, rate),))


def brute(patterns: list[Pattern], capacity: float, angles: int) -> float:
    """The best score over all rotations on the same angles."""
    found = circle.unified_circle([p.period for p in patterns], circle.PERIOD_TOLERANCE)
    count = circle.angle_count(found.turns, angles)
    curves = [circle.demand(p, t, count) for p, t in zip(patterns, found.turns, strict=True)]
    spans = [range(-(-count // turn)) for turn in found.turns[1:]]
    best = -math.inf
    for steps in itertools.product(*spans):
        total = curves[0] + sum(np.roll(c, s) for c, s in zip(curves[1:], steps, strict=True))
        best = max(best, 1 - float(np.maximum(total - capacity, 0).sum()) / (count * capacity))
    return best


SMALL = st.lists(
    st.tuples(st.sampled_from([1.0, 2.0, 3.0]), st.floats(0.1, 0.9), st.floats(0.2, 1.5)),
    min_size=2,
    max_size=3,
)


@settings(max_examples=40)
@given(SMALL)
def test_the_score_is_that_of_brute_force(jobs: list[tuple[float, float, float]]) -> None:
    patterns = [half(f"j{n}", *job) for n, job in enumerate(jobs)]
    found = compatibility.fit(patterns, 1.0, angles=12)
    best = brute(patterns, 1.0, 12)
    assert found.score <= best + 1e-9
    if found.exact:
        assert found.score == pytest.approx(best, abs=1e-9)


def test_small_cases_are_exact() -> None:
    patterns = [half("a", 1.0, 0.4), half("b", 1.5, 0.5), half("c", 1.0, 0.3)]
    found = compatibility.fit(patterns, 1.0)
    assert found.exact
    assert found.score == pytest.approx(brute(patterns, 1.0, circle.MIN_POINTS), abs=1e-9)


def test_two_halves_fit_and_are_half_a_period_apart() -> None:
    found = compatibility.fit([half("a"), half("b")], 1.0)
    assert found.score == pytest.approx(1.0)
    assert found.shifts == pytest.approx((0.0, 0.5))
    assert found.exact


def test_what_cannot_fit_scores_what_is_too_much() -> None:
    found = compatibility.fit([half("a", share=0.8), half("b", share=0.8)], 1.0)
    assert found.score == pytest.approx(1 - 0.6)
    always = compatibility.fit([half("a", share=1.0), half("b", share=1.0, rate=2.0)], 1.0)
    assert always.score == pytest.approx(-1.0)


def test_the_thesis_example_of_two_periods() -> None:
    found = compatibility.fit([half("a", 40.0, 0.5), half("b", 60.0, 1 / 6)], 1.0)
    assert found.circle.turns == (3, 2)
    assert found.circle.perimeter == pytest.approx(120.0)
    assert 0.9 < found.score <= 1.0


def test_the_order_of_the_jobs_does_not_matter() -> None:
    patterns = [half("c", 1.0, 0.3), half("a", 2.0, 0.4), half("b", 1.0, 0.2)]
    first = compatibility.fit(patterns, 1.0)
    for order in itertools.permutations(range(3)):
        other = compatibility.fit([patterns[index] for index in order], 1.0)
        assert other.score == first.score
        assert other.shifts == tuple(first.shifts[index] for index in order)


def test_many_jobs_are_placed_without_trying_everything() -> None:
    patterns = [half(f"j{n:02}", 1.0, 1 / 24) for n in range(24)]
    found = compatibility.fit(patterns, 1.0)
    assert found.score == pytest.approx(1.0)
    uneven = [half(f"j{n:02}", 1.0 + n % 3, 0.03 + 0.01 * n) for n in range(12)]
    found = compatibility.fit(uneven, 1.0)
    load = sum(p.phases[0][1] / p.period for p in uneven)
    assert found.score <= 1 - max(0.0, load - 1) + 1e-9
    assert found.score > 0.5


@pytest.mark.parametrize("capacity", [0.0, -1.0, math.nan, math.inf])
def test_capacities_that_cannot_be_are_refused(capacity: float) -> None:
    with pytest.raises(ViewError, match="capacity"):
        compatibility.fit([half("a")], capacity)


def test_no_job_and_one_job() -> None:
    with pytest.raises(ViewError, match="at least one job"):
        compatibility.fit([], 1.0)
    assert compatibility.fit([half("a")], 1.0).score == pytest.approx(1.0)
    assert compatibility.fit([half("a", rate=3.0)], 1.0).score == pytest.approx(0.0)
