"""One iteration over its phase."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostcc.measure.pattern import longest_silence, mean_of, most_of, quiet_phases, sampled
from hostcc.measure.series import cumulative

pytestmark = pytest.mark.unit


@given(st.integers(0, 59), st.integers(3, 50))
def test_the_middle_of_silence_wherever_it_is(turn: int, length: int) -> None:
    pattern = np.roll(np.where(np.arange(60) < length, 0.0, 5.0), turn)
    middle, found = longest_silence(pattern)
    assert found == length
    assert -30 <= middle <= 30
    assert (middle - turn - length // 2) % 60 == 0


def test_of_two_silences_the_longer() -> None:
    pattern = np.array([9, 0, 0, 9, 0, 0, 0, 9.0])
    assert longest_silence(pattern) == (-3, 3) or longest_silence(pattern)[1] == 3
    assert longest_silence(np.zeros(8)) == (0, 8)
    assert quiet_phases(pattern).sum() == 5


def test_rates_between_bins() -> None:
    sums = cumulative(np.array([4.0, 0.0, 2.0, 2.0]))
    assert sampled(sums, np.array([0.5]), 2.0, 2).tolist() == [[2.0, 1.0]]


def test_outliers_are_not_in_the_mean() -> None:
    pieces = np.tile([1.0, 0.0, 1.0], (10, 1))
    pieces[3] = 50.0
    assert mean_of(pieces).tolist() == [1.0, 0.0, 1.0]
    assert (most_of(4), most_of(5), most_of(11)) == (4, 4, 9)
