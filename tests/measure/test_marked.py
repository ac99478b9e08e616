"""A period from marks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostcc.measure.marked import from_marks
from hostcc.measure.series import rebinned
from tests.measure.jobs import regular

pytestmark = pytest.mark.unit

MADE = regular(100, 60)
"""Six seconds."""


def test_period_and_bytes_are_exact() -> None:
    found = from_marks([MADE], [0.1 * n for n in range(1, 60)])
    assert found is not None
    of, period = found
    assert of is MADE
    assert period.period_s == pytest.approx(0.1)
    assert period.bytes_per_iteration == pytest.approx(40_000, rel=0.01)
    assert period.confidence > 0.9


def test_too_few_or_too_old_marks_say_nothing() -> None:
    assert from_marks([MADE], [0.1, 0.2, 0.3, 0.4]) is None
    assert from_marks([MADE], [0.1 * n for n in range(1, 20)]) is None
    assert from_marks([], [0.1, 0.2]) is None


def test_long_iterations_are_seen_in_longer_bins() -> None:
    coarse = rebinned(MADE, 8)
    tail = regular(100, 8, start_ns=5_200_000_000)
    found = from_marks([tail, coarse], [0.4 * n for n in range(1, 15)])
    assert found is not None
    assert found[0] is coarse
    assert found[1].period_s == pytest.approx(0.4)


@given(st.lists(st.floats(-10, 10), max_size=40))
def test_any_marks(marks: list[float]) -> None:
    found = from_marks([MADE], sorted(marks))
    if found is not None:
        assert found[1].period_s is not None
        assert np.isfinite(found[1].period_s)
        assert found[1].period_s > 0
