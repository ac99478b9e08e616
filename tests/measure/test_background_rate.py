"""What is taken for passing while a job is silent."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostcc.measure.background_rate import background, typical
from hostcc.measure.series import Floats, cumulative

pytestmark = pytest.mark.unit

PERIOD, COUNT = 200, 10
STARTS = np.arange(COUNT, dtype=np.float64) * PERIOD + 20


def bursts(late: int = 0) -> Floats:
    """Silent for 120 bins, then 80 of 100; every third iteration is `late`."""
    values = np.zeros(PERIOD * (COUNT + 1))
    for number in range(COUNT):
        begin = 20 + number * PERIOD + 60 + (late if number % 3 == 2 else 0)
        values[begin : begin + 80] += 100.0
    return values


def rate(values: Floats) -> float:
    return background(cumulative(values), STARTS, float(PERIOD)).mean


def test_nothing_beside_the_bursts_is_nothing() -> None:
    assert rate(bursts()) == 0.0


@pytest.mark.parametrize("late", [0, 15, 40])
def test_a_steady_stream_is_found_beside_bursts_that_come_late(late: int) -> None:
    assert rate(bursts(late) + 10.0) == pytest.approx(10.0, rel=0.02)


def test_single_peaks_of_loading_count() -> None:
    chance = np.random.default_rng(1).random(PERIOD * (COUNT + 1))
    assert rate(bursts() + 2.0 + np.where(chance < 0.05, 60.0, 0.0)) == pytest.approx(5.0, rel=0.2)


@given(st.floats(0, 30), st.integers(0, 2**31))
def test_noise_does_not_pull_it_down(level: float, seed: int) -> None:
    noise = np.random.default_rng(seed).gamma(6.0, 1 / 6.0, PERIOD * (COUNT + 1))
    assert rate(bursts() + level * noise) == pytest.approx(level, rel=0.12, abs=0.1)


def test_typical_leaves_out_what_is_far_and_says_how_far_it_may_be_off() -> None:
    mean, error = typical(np.array([1.0, 1.0, 1.1, 0.9, 50.0]))
    assert mean == pytest.approx(1.0)
    assert error == pytest.approx(np.std([1.0, 1.0, 1.1, 0.9]) / 2)
    assert typical(np.zeros(0)) == (0.0, 0.0)
    assert typical(np.full(5, -1.0)) == (0.0, 0.0)


def test_noise_of_the_background_is_in_its_error() -> None:
    noise = np.random.default_rng(2).gamma(1.0, 10.0, PERIOD * (COUNT + 1))
    quiet = background(cumulative(bursts() + 10.0), STARTS, float(PERIOD))
    noisy = background(cumulative(bursts() + noise), STARTS, float(PERIOD))
    assert quiet.error == pytest.approx(0.0, abs=1e-9)
    assert 0.1 < noisy.error < 1.0


def test_iterations_that_have_nothing_in_common() -> None:
    """Each sends elsewhere: no phase is silent in most of them and seldom busy; a number all the
    same."""
    rng = np.random.default_rng(3)
    for _ in range(50):
        values = np.where(rng.random(400) < rng.uniform(0.05, 0.9), rng.uniform(0, 100, 400), 0.0)
        found = background(cumulative(values), np.arange(0.0, 360, 40.0), 40.0)
        assert np.isfinite(found.mean)
        assert np.isfinite(found.error)
