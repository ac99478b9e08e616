"""Bins of bytes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostcc.measure import series as s

pytestmark = pytest.mark.unit

COUNTS = st.lists(st.integers(0, 2**40), max_size=60)


@given(COUNTS, st.integers(1, 9))
def test_longer_bins_hold_the_same_bytes(counts: list[int], factor: int) -> None:
    made = s.series(counts, counts[::-1], 1000, start_ns=7)
    longer = s.rebinned(made, factor)
    kept = len(counts) // factor * factor
    assert longer.bin_ns == 1000 * factor
    assert longer.tx.sum() == sum(counts[:kept])
    assert longer.rx.sum() == sum(counts[::-1][:kept])
    assert longer.start_ns == 7


@given(COUNTS, st.integers(0, 60))
def test_cut_and_joined_is_the_same(counts: list[int], at: int) -> None:
    made = s.series(counts, None, 1000, start_ns=5)
    again = s.joined(s.part(made, 0, at), s.part(made, at))
    assert again.tx.tolist() == counts
    assert again.start_ns == 5
    assert made.total.tolist() == counts


def test_bins_that_nobody_measured_are_empty() -> None:
    before, after = s.series([1, 2], None, 10), s.series([3], [4], 10, start_ns=40)
    found = s.joined(before, after)
    assert found.tx.tolist() == [1, 2, 0, 0, 3]
    assert found.rx.tolist() == [0, 0, 0, 0, 4]
    assert found.end_ns == 50
    assert s.joined(s.empty(10), after) is after


@pytest.mark.parametrize(("bin_ns", "start"), [(20, 40), (10, 45), (10, 10)])
def test_bins_that_do_not_fit_are_refused(bin_ns: int, start: int) -> None:
    with pytest.raises(ValueError, match="expected bins of 10 ns from 20 on"):
        s.joined(s.series([1, 2], None, 10), s.series([3], None, bin_ns, start_ns=start))


@given(
    st.lists(st.integers(0, 99), min_size=1, max_size=40), st.integers(0, 40), st.integers(-5, 40)
)
def test_overlapping_series_are_one(counts: list[int], end: int, begin: int) -> None:
    whole = s.series(counts, counts[::-1], 10, 70)
    before, later = whole.part(0, end), whole.part(max(0, begin))
    if later.start_ns > before.end_ns:
        with pytest.raises(ValueError, match="expected bins of 10 ns from"):
            s.continued(before, later)
    longest = s.continued(before, later, gap=40)
    missing = range(len(before), max(0, begin))
    assert longest.end_ns == max(before.end_ns, later.end_ns)
    assert longest.tx.tolist() == [
        0 if at in missing else count for at, count in enumerate(counts[: len(longest)])
    ]
    assert len(longest.rx) == len(longest)


@pytest.mark.parametrize(("bin_ns", "start"), [(20, 100), (10, 95)])
def test_bins_that_do_not_continue_are_refused(bin_ns: int, start: int) -> None:
    with pytest.raises(ValueError, match="expected bins of 10 ns from 110 on"):
        s.continued(s.series([1, 2, 3], None, 10, 80), s.series([1] * 9, None, bin_ns, start), 9)


def test_what_is_no_series_is_refused() -> None:
    with pytest.raises(ValueError, match="bin_ns"):
        s.series([1], None, 0)
    with pytest.raises(ValueError, match="equal lengths"):
        s.series([1], [1, 2], 10)


def test_differences_of_sums_are_bytes() -> None:
    sums = s.cumulative(np.array([1, 2, 3]))
    assert sums.tolist() == [0, 1, 3, 6]


@given(st.lists(st.floats(0, 1e9), min_size=1, max_size=40), st.integers(1, 60))
def test_smoothing_is_two_means_that_do_not_move(values: list[float], width: int) -> None:
    given_values = np.array(values)
    # A mean over what follows, then one over what comes before; outside there is nothing.
    zeros = np.zeros(width - 1)
    ahead = np.convolve(np.concatenate((given_values, zeros)), np.ones(width), mode="valid")
    both = np.convolve(np.concatenate((zeros, ahead)), np.ones(width), mode="valid")
    smooth = s.smoothed(given_values, width)
    assert smooth.shape == given_values.shape
    assert smooth == pytest.approx(both / width**2, rel=1e-6, abs=1e-3)


@given(st.lists(st.floats(-1e9, 1e9), max_size=40))
def test_the_median_is_numpys(values: list[float]) -> None:
    if values:
        assert s.median(np.array(values)) == np.median(values)
    else:
        assert np.isnan(s.median(np.zeros(0)))
