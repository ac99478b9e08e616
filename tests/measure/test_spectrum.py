"""Lags after which a series repeats itself."""

from __future__ import annotations

import numpy as np
import pytest

from hostcc.measure.spectrum import autocorrelation, detrended, floor_of, repeating_lags

pytestmark = pytest.mark.unit


def square(
    period: int, count: int, high: float = 9.0
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.tile(np.where(np.arange(period) < period // 3, high, 0.0), count)


def test_correlation_is_what_its_definition_says() -> None:
    values = np.random.default_rng(1).random(50)
    found = autocorrelation(values, 20)
    for lag in range(21):
        first, last = values[: 50 - lag], values[lag:]
        expected = (first @ last) / np.sqrt((first @ first) * (last @ last))
        assert found[lag] == pytest.approx(expected)


@pytest.mark.parametrize("period", [6, 31, 100, 700, 5000])
def test_the_period_is_among_the_lags(period: int) -> None:
    lags = repeating_lags(square(period, 6))
    assert any(abs(lag.bins / period - 1) < 0.02 and lag.correlation > 0.9 for lag in lags)


def test_nothing_repeats_in_silence_or_in_short_series() -> None:
    assert repeating_lags(np.zeros(500)) == []
    assert repeating_lags(np.ones(6)) == []


def test_taming_takes_the_floor_and_single_peaks_away() -> None:
    values = square(30, 10) + 4.0
    values[77] = 1e6
    found = detrended(values)
    assert floor_of(values) == 4.0
    assert found.min() == 0.0
    assert found.max() == pytest.approx(3 * 9.0)
    assert floor_of(np.zeros(0)) == 0.0
    assert not detrended(np.full(20, 3.0)).any()
