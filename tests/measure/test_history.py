"""A packed series is the series."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostcc.measure import history as h
from hostcc.measure.cells import cells
from hostcc.measure.history import History, extended, history
from hostcc.measure.packed import Form
from hostcc.measure.series import ByteSeries, coarser, empty, joined, part, series
from tests.measure.jobs import MS, regular

pytestmark = pytest.mark.unit

SMALL = 7
"""Bins of a piece here, so that short series have many."""


@pytest.fixture(autouse=True)
def _short_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(h, "PIECE", SMALL)


def same(one: ByteSeries | History, other: ByteSeries | History) -> bool:
    return (
        (one.bin_ns, one.start_ns, one.end_ns) == (other.bin_ns, other.start_ns, other.end_ns)
        and (len(one), one.tx.dtype, one.rx.dtype) == (len(other), other.tx.dtype, other.rx.dtype)
        and one.tx.tolist() == other.tx.tolist()
        and one.rx.tolist() == other.rx.tolist()
        and one.total.tolist() == other.total.tolist()
    )


NUMBERS = st.lists(st.sampled_from([0, 0, 1, 300, 70_000, 2**40]), max_size=30)
STEPS = st.lists(st.tuples(st.integers(0, 9), NUMBERS, st.integers(0, 20)), min_size=1, max_size=12)


@settings(deadline=None)
@given(STEPS, st.integers(-60, 60), st.integers(-60, 60))
def test_it_grows_and_is_cut_as_a_series_is(
    steps: list[tuple[int, list[int], int]], begin: int, end: int
) -> None:
    plain, packed = empty(MS), History(MS, 0)
    for gap, numbers, cut in steps:
        start_ns = plain.end_ns + gap * MS
        new = series(numbers, numbers[::-1], MS, start_ns)
        plain, packed = joined(plain, new), packed.longer(new)
        assert same(packed, plain)
        plain, packed = part(plain, min(cut, len(plain))), packed.since(min(cut, len(plain)))
        assert same(packed, plain)
    assert same(packed.whole(), plain)
    assert same(part(packed, begin, end), part(plain, begin, end))
    assert same(part(packed, begin), part(plain, begin))
    assert all(len(piece) <= SMALL for piece in packed.pieces)


def test_what_it_was_made_from_stays_as_it_was() -> None:
    first = history(series(range(10), None, MS))
    longer = first.longer(series([5], None, MS, 10 * MS))
    shorter = longer.since(9)
    assert first.tx.tolist() == [*range(10)]
    assert longer.tx.tolist() == [*range(10), 5]
    assert shorter.tx.tolist() == [9, 5]
    assert longer.pieces[0] is first.pieces[0]


@pytest.mark.parametrize("bins", [SMALL, SMALL + 1])
@pytest.mark.parametrize(
    "new",
    [
        series([1], None, MS, 0),
        series([1], None, 2 * MS, 100 * MS),
        series([1], None, MS, 10**8 + 1),
    ],
)
def test_bins_that_do_not_fit_are_refused(bins: int, new: ByteSeries) -> None:
    with pytest.raises(ValueError, match="expected bins"):
        history(series([1] * bins, None, MS)).longer(new)


def test_a_job_that_is_silent_most_of_the_time_takes_little(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(h, "PIECE", 2048)
    made = regular(240, 60, high=250_000, share=0.2)
    assert history(made).size < 0.2 * (made.tx.nbytes + made.rx.nbytes)
    silent = series(np.zeros(16_384, np.int64), None, MS)
    assert history(silent).size == 0


@given(
    st.lists(st.lists(st.sampled_from([0] * 30 + [5]), min_size=1, max_size=80), max_size=3),
    st.integers(0, 250),
)
def test_quiet_is_what_has_no_bytes(several: list[list[int]], begin: int) -> None:
    packed = History(MS, 0)
    for numbers in several:
        packed = packed.longer(cells(series(numbers, None, MS, packed.end_ns)))
    begin = min(begin, len(packed))
    silent = not packed.tx[begin:].any()
    assert silent or not packed.quiet(begin)
    if packed.pieces and begin > len(packed) - len(packed.pieces[-1]):
        forms = {way.form for way in (packed.pieces[-1].tx, packed.pieces[-1].rx)}
        assert forms != {Form.PLACES} or packed.quiet(begin) == silent


STEP, KEPT = 4, 60
SPARSE_NUMBERS = st.lists(st.sampled_from([0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 70_000]), max_size=90)


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 9), SPARSE_NUMBERS, st.booleans()), min_size=1, max_size=8)
)
def test_each_level_holds_the_last_bins_of_the_whole_series(
    steps: list[tuple[int, list[int], bool]],
) -> None:
    levels = tuple(History(MS * STEP**level, 0) for level in range(3))
    whole = empty(MS)
    for gap, numbers, sparse in steps:
        new = series(numbers, numbers[::-1], MS, whole.end_ns + gap * MS if len(whole) else 0)
        if not len(new):
            continue
        whole = joined(whole, new)
        levels = h.cut(extended(levels, cells(new) if sparse else new, STEP), KEPT)
        for number, level in enumerate(levels):
            expected = part(_rebinned(whole, STEP**number), -KEPT)
            assert (level.start_ns, level.tx.tolist()) == (expected.start_ns, expected.tx.tolist())
            assert level.rx.tolist() == expected.rx.tolist()


def _rebinned(of: ByteSeries, factor: int) -> ByteSeries:
    tx, rx = coarser(of.tx, factor), coarser(of.rx, factor)
    return ByteSeries(of.bin_ns * factor, of.start_ns, tx, rx)


def test_bins_that_do_not_fit_in_levels_are_refused() -> None:
    levels = extended((History(MS, 0),), series(np.ones(9), None, MS), STEP)
    with pytest.raises(ValueError, match="expected bins"):
        extended(levels, series([1], None, MS, 3 * MS), STEP)
