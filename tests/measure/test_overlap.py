"""Communication under computation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostcc.measure.overlap import overlap
from hostcc.measure.period import detect
from hostcc.measure.work import Activity
from tests.measure.jobs import regular

pytestmark = pytest.mark.unit

PERIOD_S, COUNT = 0.1, 14
MADE = regular(100, COUNT, share=0.4, start_ns=5_000_000_000)
FOUND = detect(MADE)


def activity(busy_until: float, step_s: float = 0.002, known: float = 1.0) -> Activity:
    """Busy from each iteration's begin to a share of it; known in the first part of the time."""
    starts = 5.0 + np.arange(0, PERIOD_S * COUNT, step_s)
    phase = (starts - 5.0 + step_s / 2) / PERIOD_S % 1.0
    busy = np.where(phase < busy_until, 1.0, 0.0)
    busy[int(known * len(busy)) :] = np.nan
    return Activity(starts, starts + step_s, busy)


@settings(max_examples=20, deadline=None)
@given(st.floats(0.0, 1.0))
def test_the_share_that_is_hidden(busy_until: float) -> None:
    """Communication is the last two fifths."""
    expected = min(1.0, max(0.0, (busy_until - 0.6) / 0.4))
    assert overlap(MADE, FOUND, activity(busy_until)).ratio == pytest.approx(expected, abs=0.06)


def test_unknown_stretches_do_not_count() -> None:
    found = overlap(MADE, FOUND, activity(0.8, known=0.7))
    assert found.ratio == pytest.approx(0.5, abs=0.06)


def test_overlapping_readings_count_once() -> None:
    once = activity(0.8)
    twice = Activity(
        np.concatenate((once.start_s, once.start_s)),
        np.concatenate((once.end_s, once.end_s)),
        np.concatenate((once.busy, once.busy)),
    )
    assert overlap(MADE, FOUND, twice).ratio == pytest.approx(0.5, abs=0.06)


@pytest.mark.parametrize(
    ("given_", "reason"),
    [
        (None, "no GPU activity"),
        (Activity(np.zeros(0), np.zeros(0), np.zeros(0)), "no GPU activity"),
        (activity(0.8, known=0.0), "no GPU activity"),
        (activity(0.8, step_s=0.05), "too seldom"),
        (activity(0.8, known=0.2), "too little"),
    ],
)
def test_unknown_is_an_answer(given_: Activity | None, reason: str) -> None:
    found = overlap(MADE, FOUND, given_)
    assert found.ratio is None
    assert reason in found.reason


def test_not_periodic() -> None:
    quiet = regular(100, COUNT, high=0)
    assert "not periodic" in overlap(quiet, detect(quiet), activity(0.5)).reason
