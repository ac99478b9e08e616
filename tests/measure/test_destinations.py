"""Whose rows are, and which are taken back."""

from __future__ import annotations

from ipaddress import ip_address

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostcc.measure.destinations import (
    DESTINATION,
    Recycling,
    Rows,
    address,
    sum_by,
)
from tests.measure.addresses import packed

pytestmark = pytest.mark.unit

KEY = np.dtype([("slot", "u2"), ("local", "u1"), ("pad", "u1"), ("addr", "u1", (16,))])


@given(st.ip_addresses())
def test_addresses(given_address: object) -> None:
    expected = ip_address(str(given_address))
    mapped = getattr(expected, "ipv4_mapped", None)
    assert address(packed(str(given_address))) == (mapped or expected)


def test_learning_and_recycling() -> None:
    rows = Rows(8)
    keys = np.zeros(3, KEY)
    keys["slot"], keys["local"] = [1, 2, 1], [0, 1, 0]
    rows.learn(keys, np.array([3, 5, 6], np.uint32))
    rows.set_other(7, 2)
    assert rows.in_use == 3
    assert rows.of_slot(1).tolist() == [3, 6]
    assert rows.of_slot(2).tolist() == [5]
    assert rows.who["other"].tolist() == [False] * 7 + [True]
    assert rows.who["local"][5]
    marks = np.array([0, 0, 0, 50, 0, 10, 20, 0], np.int64)
    assert rows.idle(marks, before=40, most=8).tolist() == [5, 6]
    assert rows.idle(marks, before=40, most=1).tolist() == [5]
    assert rows.idle(marks, before=-5, most=8).tolist() == []
    rows.drop(np.array([5]))
    assert rows.in_use == 2
    rows.learn(keys[:1], np.array([7], np.uint32))
    assert (rows.in_use, bool(rows.who["other"][7])) == (1, False)


@given(capacity=st.integers(1, 5000), in_use=st.integers(0, 5000))
def test_recycling_keeps_a_reserve(capacity: int, in_use: int) -> None:
    wanted = Recycling(capacity).wanted(min(in_use, capacity))
    free = capacity - min(in_use, capacity)
    low = capacity // 8
    assert wanted == 0 if free >= low else free + wanted == 2 * low


def test_sum_by() -> None:
    who = np.zeros(4, DESTINATION)
    who["slot"] = [2, 1, 2, 2]
    who["addr"][3] = 9
    keys, sums = sum_by(who, np.array([[1, 10], [2, 20], [3, 30], [4, 40]]))
    assert keys["slot"].tolist() == [1, 2, 2]
    assert sums.tolist() == [[2, 20], [4, 40], [4, 40]]
