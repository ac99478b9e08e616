"""Whether the end of a series is like nothing before it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostcc.measure.novelty import FEWEST, novelty
from hostcc.measure.series import Floats

pytestmark = pytest.mark.unit


def pieces(*lengths: int, burst: int = 40) -> Floats:
    """Iterations of so many bins, each of which ends with a burst."""
    return np.concatenate([np.where(np.arange(n) >= n - burst, 1000.0, 0.0) for n in lengths])


PAST = pieces(*[100] * 16)


def test_the_same_again_is_not_new() -> None:
    assert novelty(np.concatenate((PAST, pieces(100, 100, 100))), len(PAST), 100.0) < 0.1


@pytest.mark.parametrize("burst", [10, 90])
def test_another_amount_is_new(burst: int) -> None:
    end = pieces(100, 100, burst=burst)
    assert novelty(np.concatenate((PAST, end)), len(PAST), 100.0) > 1
    # Also when it begins with one that is as it was.
    end = np.concatenate((pieces(100), end))
    values = np.concatenate((PAST, end))
    assert novelty(values, len(PAST), 100.0) < 0.1
    assert novelty(values, len(PAST), 100.0, late=True) > 1


def test_what_was_seen_before_is_not_new() -> None:
    """A part of a longer pattern is no change, however unlike the iteration before it is."""
    longer = np.concatenate((pieces(100, 100, 100), pieces(100, burst=90)))
    values = np.tile(longer, 6)
    whole = len(values) - 100
    assert novelty(values, whole - 300, 100.0) < 0.1
    assert novelty(values, whole, 100.0) < 0.1


def test_nothing_is_new_to_a_short_past() -> None:
    few = pieces(*[100] * (FEWEST - 1))
    assert novelty(np.concatenate((few, np.zeros(200))), len(few), 100.0) == 0
    assert novelty(np.concatenate((PAST, np.zeros(100))), len(PAST), 100.0) == 0
    assert novelty(np.zeros(2000), 1600.0, 100.0) == 0


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.floats(0, 1000), min_size=3, max_size=12),
    st.integers(12, 90),
    st.integers(0, 60),
)
def test_what_repeats_is_never_new_whatever_period_is_assumed(
    shape: list[float], period: int, shift: int
) -> None:
    """Of a series that repeats itself no end is new, and no scale matters."""
    values = np.tile(np.repeat(np.array(shape), 4), 2000 // (4 * len(shape)))[:1800]
    since = float(1800 - 2 * period - shift % period)
    found = novelty(values, since, float(period))
    assert found <= 1
    assert novelty(values * 1e6, since, float(period)) == pytest.approx(found, abs=0.01)
