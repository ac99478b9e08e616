"""Published curves."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.evidence import readings

pytestmark = pytest.mark.unit


def test_a_curve_of_some_rows() -> None:
    values, shares = readings.curve(
        "crux-fig16-relative-error-cdf.csv", panel="16b", method="TACCL*"
    )
    assert len(values) == 100
    assert (np.diff(shares) >= 0).all()
    # As published: a mean error of 4.30 %.
    middles = (values[1:] + values[:-1]) / 2
    assert (np.diff(shares) * middles).sum() == pytest.approx(0.043, abs=5e-4)


def test_means_and_quantiles() -> None:
    times, values = np.array([0.0, 1.0, 4.0]), np.array([2.0, 6.0, 0.0])
    assert readings.mean_over_time(times, values) == pytest.approx((2 + 3 * 6) / 4)
    assert readings.quantile(np.array([1.0, 2.0, 3.0]), np.array([0.2, 0.7, 1.0]), 0.5) == 2.0


def test_a_mean_between_two_times_is_of_straight_lines() -> None:
    times, values = np.array([-1.0, 1.0, 3.0]), np.array([0.0, 2.0, 0.0])
    assert readings.mean_between(times, values, 0.0, 1.0) == pytest.approx(1.5)
    assert readings.mean_between(times, values, -1.0, 3.0) == pytest.approx(1.0)
