"""Numbers in few bytes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostcc.measure.packed import (
    Form,
    Packed,
    alike,
    last_place,
    listed,
    packed,
    packed_at,
    unpack,
)
from hostcc.measure.series import Ints

pytestmark = pytest.mark.unit

ANY = st.integers(-(2**63), 2**63 - 1)
LIKELY = st.sampled_from([0, 0, 0, 0, 1, 255, 256, 65_535, 65_536, 2**32 - 1, 2**32])


def unpacked(of: Packed) -> Ints:
    found = np.zeros(of.count, np.int64)
    unpack(of, found)
    return found


@given(st.lists(st.one_of(LIKELY, ANY), max_size=100))
def test_nothing_is_lost(numbers: list[int]) -> None:
    values = np.array(numbers, np.int64)
    found = unpacked(packed(values))
    assert found.tolist() == numbers


@given(st.lists(LIKELY, max_size=300))
def test_it_never_takes_more_than_the_numbers_themselves(numbers: list[int]) -> None:
    assert len(packed(np.array(numbers, np.int64)).data) <= 8 * len(numbers)


@pytest.mark.parametrize(
    ("numbers", "bytes_"),
    [
        ([0] * 1000, 0),
        ([1] * 1000, 1000),
        ([2**16 - 1] * 1000, 2000),
        ([2**16] * 1000, 3000),
        ([2**32] * 1000, 5000),
        ([-1] * 1000, 8000),
        ([0] * 900 + [70_000] * 100, 125 + 300),
    ],
)
def test_the_smallest_way_is_taken(numbers: list[int], bytes_: int) -> None:
    assert len(packed(np.array(numbers)).data) == bytes_


def test_every_second_number_may_be_a_view() -> None:
    values = np.arange(100)
    assert unpacked(packed(values[::2])).tolist() == values[::2].tolist()


@given(st.dictionaries(st.integers(0, 999), st.tuples(LIKELY, LIKELY), max_size=40))
def test_two_arrays_of_the_same_places_are_listed_by_them(
    given: dict[int, tuple[int, int]],
) -> None:
    places = np.array(sorted(given), np.int64)
    both = [np.array([given[at][way] for at in places.tolist()], np.int64) for way in (0, 1)]
    kept = [packed_at(1000, places, values) for values in both]
    for values, one in zip(both, kept, strict=True):
        dense = np.zeros(1000, np.int64)
        dense[places] = values
        assert unpacked(one).tolist() == dense.tolist()
        at, numbers = listed(one)
        assert np.all(np.diff(at) > 0)
        assert dict(zip(at.tolist(), numbers.tolist(), strict=True)).items() >= {
            (int(at), int(dense[at])) for at in np.flatnonzero(dense)
        }
    same = listed(kept[0])[0].tolist() == listed(kept[1])[0].tolist()
    assert not alike(*kept) or same
    if all(2 * np.count_nonzero(values) >= len(values) > 0 for values in both):
        assert alike(*kept)


def test_places_that_are_mostly_empty_are_not_kept() -> None:
    values = np.array([7] + [0] * 30, np.int64)
    assert len(packed_at(1000, np.arange(31), values).data) == 3


@given(st.lists(LIKELY, max_size=300))
def test_the_last_place_is_told_of_what_is_listed(numbers: list[int]) -> None:
    values = np.array(numbers, np.int64)
    (used,) = values.nonzero()
    of, last = packed(values), used[-1] if len(used) else -1
    assert last_place(of) == (last if of.form is Form.PLACES else None)
