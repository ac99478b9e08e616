"""Iterations looked at all at once are those that are found one after the other."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.period_changes import Kind, any_shape, resized
from benchmarks.synthetic import Dirt, job
from hostcc.measure.changes import Iteration, Reference, following, reference
from hostcc.measure.period import detect
from hostcc.measure.series import ByteSeries, joined, part, series
from hostcc.measure.steady import steady
from tests.measure.jobs import MS, regular

pytestmark = [pytest.mark.unit, pytest.mark.slow]


def learned(of: ByteSeries) -> tuple[float, Reference] | None:
    """Where what comes after `of` begins, in bins, and what it has to resemble."""
    found = detect(of)
    known = reference(of, found)
    return None if known is None or found.starts is None else (float(found.starts[-1]), known)


def assert_same(found: list[Iteration], expected: list[Iteration]) -> None:
    for one, other in zip(found, expected, strict=True):
        assert one.start == pytest.approx(other.start, abs=1e-6)
        for name in ("length", "sent", "silent"):
            assert getattr(one, name) == pytest.approx(getattr(other, name), abs=1e-6)
        assert one.deviates == other.deviates


@pytest.mark.parametrize(
    "dirt",
    [Dirt(jitter=0.005), Dirt(jitter=0.02, straggler_share=0.1), Dirt(jitter=0.01, loading=0.3)],
)
@pytest.mark.parametrize("size", [0.67, 1.0, 1.25])
def test_as_one_after_the_other(dirt: Dirt, size: float) -> None:
    usual = 0
    for seed in range(12):
        rng = np.random.default_rng([seed, 5])
        shape = any_shape(rng)
        then = resized(shape, Kind.COMPUTING, size)
        made = job(shape, dirt, rng, iterations=50, bin_s=0.001, then=then, change_at=40).series
        start = learned(part(made, 0, 1600))
        if start is None:
            continue
        expected, found = following(made, *start), steady(made, *start)
        assert_same(found, expected[: len(found)])
        assert not any(one.deviates for one in found)
        usual += len(found)
    assert usual > 12 * 6


def test_a_regular_job_is_done_but_for_its_end() -> None:
    of = regular(100, 60)
    start = learned(part(of, 0, 2000))
    assert start is not None
    found, expected = steady(of, *start), following(of, *start)
    assert len(expected) - 3 <= len(found) < len(expected)
    assert_same(found, expected[: len(found)])


@pytest.mark.parametrize("iterations", [1, 4])
def test_little_is_left_to_others(iterations: int) -> None:
    of = regular(100, 20 + iterations)
    start = learned(part(of, 0, 2000))
    assert start is not None
    assert steady(of, *start) == []


def test_it_stops_where_a_job_falls_silent() -> None:
    of, nothing = regular(100, 40), np.zeros(2000, np.int64)
    start = learned(part(of, 0, 2000))
    assert start is not None
    whole = joined(of, series(nothing, nothing, MS, of.end_ns))
    found, expected = steady(whole, *start), following(whole, *start)
    assert 15 <= len(found) <= 21
    assert_same(found, expected[: len(found)])
    assert expected[len(found) + 1].deviates
