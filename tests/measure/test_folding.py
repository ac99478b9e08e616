"""Iterations laid over each other."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostcc.measure.folding import communicating, fold
from hostcc.measure.period import detect
from hostcc.measure.series import part, series
from tests.measure.jobs import MS, regular

pytestmark = pytest.mark.unit


@settings(max_examples=25, deadline=None)
@given(st.floats(0.1, 0.8), st.integers(0, 99), st.integers(0, 10**15))
def test_when_a_job_communicates(share: float, lead: int, start: int) -> None:
    made = part(regular(100, 14, share=share, start_ns=start), lead)
    found = detect(made)
    laid = fold(made, found)
    assert laid is not None
    assert laid.communication_start_s == pytest.approx(0.1 * (1 - share), abs=0.003)
    assert laid.communication_s == pytest.approx(0.1 * share, abs=0.003)
    # The rate, and the bytes under the curve.
    assert laid.mean.max() == pytest.approx(1e6, rel=0.01)
    assert laid.mean.mean() * laid.period_s == pytest.approx(found.bytes_per_iteration, rel=0.01)
    # Iterations begin when the silence does: where the piece before the first whole one ends.
    # Of the first one a part of the silence may be before the series.
    offset = (laid.begins_ns - start) / MS % 100
    away = np.minimum(offset, 100 - offset)
    assert away[0] < 6
    assert np.all(away[1:] < 2)


def test_quantiles_are_in_order_and_stragglers_are_left_out() -> None:
    generator = np.random.default_rng(5)
    pieces = []
    for number in range(30):
        late = 60 if number in (7, 20) else 0
        size = int(generator.integers(800, 1200))
        pieces.append(np.concatenate((np.zeros(60 + late), np.full(40, size))))
    made = series(np.concatenate(pieces).astype(np.int64), None, MS)
    laid = fold(made, detect(made))
    assert laid is not None
    assert np.all(laid.low <= laid.median)
    assert np.all(laid.median <= laid.high)
    assert laid.high.max() > 1.05 * laid.low.max()
    assert laid.iterations < 29
    assert laid.communication_start_s == pytest.approx(0.06, abs=0.003)


def test_background_is_not_communication() -> None:
    made = regular(100, 14, share=0.3)
    more = dataclasses.replace(made, rx=made.rx + 200)
    laid = fold(more, detect(more))
    assert laid is not None
    assert laid.communication_s == pytest.approx(0.03, abs=0.003)
    assert laid.background_bytes_per_s == pytest.approx(200e3, rel=0.01)


def test_without_a_period_there_is_nothing_to_fold() -> None:
    made = series(np.zeros(100), None, MS)
    assert fold(made, detect(made)) is None


def test_silence_is_not_communication() -> None:
    assert not communicating(np.zeros(4), 0.0).any()
    assert communicating(np.array([0.0, 9.0, 0.5]), 0.0).tolist() == [False, True, False]


def test_without_a_complete_iteration_there_is_nothing_to_lay() -> None:
    made = regular(100, 14)
    found = detect(made)
    assert found.starts is not None
    late = dataclasses.replace(found, starts=np.array([len(made) - 20.0]))
    assert fold(made, late) is None
