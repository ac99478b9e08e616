"""What tells iterations apart, out of series whose silences and bytes are known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostcc.measure.boundary_hint import boundary_hint
from hostcc.measure.marked import from_marks
from hostcc.measure.period import Period, detect
from hostcc.measure.series import NS, ByteSeries, series
from hostcc.model import BoundaryHint
from tests.measure.jobs import MS

pytestmark = pytest.mark.unit

RATE = 25_000
"""Bytes a millisecond."""


def made(
    silences: list[int], bursts: int = 1, burst: int = 60, pause: int = 10, extra: int = 0
) -> tuple[ByteSeries, Period]:
    """A job that computes so many milliseconds before each iteration, and where its iterations
    begin: in the middle of these.  `extra`: a message of one byte, so long before each burst."""
    pieces, starts, at = [], [], 0
    for silence in silences:
        parts = [np.zeros(silence)]
        for number in range(bursts):
            parts += [np.zeros(pause)] * bool(number) + [np.full(burst, RATE)]
        piece = np.concatenate(parts)
        if extra:
            piece[silence - extra] = 1
        starts.append(at + silence / 2)
        at += len(piece)
        pieces.append(piece)
    of = series(np.concatenate(pieces).astype(np.int64), None, MS)
    period = float(np.median(np.diff(starts)))
    return of, Period(
        periodic=True,
        reason="",
        confidence=1.0,
        period_s=period * of.bin_s,
        starts=np.array(starts),
    )


def hint_of(of: ByteSeries, found: Period) -> BoundaryHint:
    hint = boundary_hint(of, found)
    assert hint is not None
    return hint


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.integers(60, 80), min_size=12, max_size=20),
    st.integers(1, 8),
    st.integers(10, 80),
    st.integers(2, 40),
)
def test_a_hint_separates_what_is_within_from_what_is_between(
    silences: list[int], bursts: int, burst: int, pause: int
) -> None:
    hint = hint_of(*made(silences, bursts, burst, pause))
    within = pause if bursts > 1 else 0
    assert within < 1e3 * hint.silence_s < 80
    assert 2 <= 1e3 * hint.pause_s <= min(1e3 * hint.silence_s, *silences)
    # Every end is near the bytes, no other silence of such a length is.
    assert hint.bytes == bursts * burst * RATE
    if pause >= 1e3 * hint.pause_s:
        assert hint.margin_bytes <= burst * RATE / 2 or bursts == 1
    assert 0 < hint.margin_bytes <= hint.bytes / 8


def test_what_is_detected_gives_the_same() -> None:
    of, found = made([100] * 30, 4, 27, 10)
    hint, detected = hint_of(of, found), hint_of(of, detect(of))
    assert detected.period_s == pytest.approx(0.238, rel=0.01)
    assert (detected.silence_s, detected.pause_s) == (hint.silence_s, hint.pause_s)
    assert (hint.silence_s, hint.pause_s) == (0.055, 0.025)
    assert (detected.bytes, detected.margin_bytes) == (hint.bytes, hint.margin_bytes)


def test_marks_are_as_good() -> None:
    of, found = made([100] * 20, 4, 27, 10)
    assert found.starts is not None
    # An iteration ends with its last byte.
    marks = (of.start_ns + (found.starts - 50) * of.bin_ns) / NS
    marked = from_marks((of,), marks.tolist())
    assert marked is not None
    assert hint_of(*marked).silence_s == pytest.approx(0.055)


def test_a_message_before_the_burst_is_no_burst() -> None:
    hint = hint_of(*made([100] * 20, 4, 27, 10, extra=15))
    assert hint.bytes == 4 * 27 * RATE + 1
    assert hint.margin_bytes == pytest.approx(hint.bytes / 8, rel=0.01)


def test_bytes_that_vary_are_no_help() -> None:
    generator = np.random.default_rng(3)
    pieces = [
        piece
        for size in generator.integers(RATE // 2, 2 * RATE, 24)
        for piece in (np.zeros(100), np.full(60, size))
    ]
    of = series(np.concatenate(pieces).astype(np.int64), None, MS)
    starts = np.arange(50.0, 24 * 160, 160)
    found = Period(periodic=True, reason="", confidence=1.0, period_s=0.16, starts=starts)
    assert hint_of(of, found).margin_bytes == 0


def test_there_is_no_hint_where_it_would_be_wrong() -> None:
    of, found = made([40] * 20, 4, 27, 60)  # longer within than between
    assert boundary_hint(of, found) is None
    of, found = made([100] * 4)
    assert boundary_hint(of, found) is None  # too few
    of, found = made([100, 400] * 8)
    assert boundary_hint(of, found) is None  # no two alike
    of, found = made([100] * 20, 4, 27, 10)
    assert found.starts is not None
    # The half of an iteration taken for a whole: two bursts, and every second silence is a pause.
    halves = np.sort(np.concatenate((found.starts, found.starts + 119)))
    half = replace(found, period_s=0.119, starts=halves)
    assert boundary_hint(of, half) is None
    of, found = made([100] * 20)
    received = ByteSeries(of.bin_ns, of.start_ns, np.zeros_like(of.tx), of.tx)
    assert boundary_hint(received, found) is None  # this host only receives
    assert boundary_hint(of, detect(series(np.zeros(100, np.int64), None, MS))) is None
