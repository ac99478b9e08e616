"""A series without its empty bins is the series."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostcc.measure.cells import Cells, added, cells, chained
from hostcc.measure.history import History, history
from hostcc.measure.series import Bins, empty, joined, part, rebinned, series
from tests.measure.jobs import MS, regular

pytestmark = pytest.mark.unit

NUMBERS = st.lists(st.sampled_from([0] * 9 + [1, 300, 2**40]), max_size=60)
STEPS = st.lists(st.tuples(st.integers(0, 9), NUMBERS, st.integers(0, 40)), min_size=1, max_size=9)


def same(one: Bins, other: Bins) -> bool:
    mine, its = one.whole(), other.whole()
    return (
        (one.bin_ns, one.bin_s, one.start_ns, one.end_ns, len(one))
        == (other.bin_ns, other.bin_s, other.start_ns, other.end_ns, len(other))
        and mine.tx.tolist() == its.tx.tolist()
        and mine.rx.tolist() == its.rx.tolist()
    )


@given(NUMBERS, st.integers(-70, 70), st.integers(-70, 70), st.integers(1, 9))
def test_it_is_cut_and_shortened_as_a_series_is(
    numbers: list[int], begin: int, end: int, factor: int
) -> None:
    plain = series(numbers, numbers[::-1], MS, 5 * MS)
    few = cells(plain)
    assert same(few, plain)
    assert same(part(few, begin, end), part(plain, begin, end))
    assert same(part(few, begin), part(plain, begin))
    assert same(
        few.preceded(factor), joined(series([0] * factor, None, MS, (5 - factor) * MS), plain)
    )
    assert same(few.coarser(factor), rebinned(plain, factor))
    assert len(few.coarser(factor).at) == len(set(few.coarser(factor).at.tolist()))


@settings(deadline=None)
@given(STEPS)
def test_a_history_of_them_is_that_of_the_series(steps: list[tuple[int, list[int], int]]) -> None:
    plain, packed = empty(MS), History(MS, 0)
    for gap, numbers, cut in steps:
        new = series(numbers, numbers[::-1], MS, plain.end_ns + gap * MS)
        plain, packed = joined(plain, new), packed.longer(cells(new))
        plain, packed = part(plain, min(cut, len(plain))), packed.since(min(cut, len(plain)))
        assert same(packed, plain)
        assert same(packed.cells(min(3, len(plain))), part(plain, 3))


def test_a_few_that_follow_one_another_are_one() -> None:
    made = regular(10, 10)
    few = [cells(part(made, 0, 30)), cells(part(made, 37, 60)), cells(part(made, 60))]
    plain = joined(joined(part(made, 0, 30), part(made, 37, 60)), part(made, 60))
    assert same(chained(few), plain)
    with pytest.raises(ValueError, match="expected bins"):
        chained([few[1], few[0]])


def test_numbers_of_one_place_are_added_up() -> None:
    of = cells(series([1, 0, 2, 3], [5, 0, 0, 1], MS))
    at, sent, received = added(of.at // 3, of.sent, of.received)
    assert (at.tolist(), sent.tolist(), received.tolist()) == ([0, 1], [3, 3], [5, 1])


def test_a_job_that_seldom_sends_takes_little_and_a_long_time_is_one_piece() -> None:
    plain = regular(1000, 40, high=250_000, share=0.003)
    few = cells(plain)
    assert isinstance(few, Cells)
    assert few.few
    made = history(few)
    assert len(made.pieces) == 1
    assert made.size < 0.002 * (plain.tx.nbytes + plain.rx.nbytes)
    assert same(made, plain)
    assert same(history(cells(regular(1000, 70))), regular(1000, 70))
    assert same(history(cells(regular(1000, 70, share=0.003))), regular(1000, 70, share=0.003))
