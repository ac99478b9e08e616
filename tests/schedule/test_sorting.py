"""Orders of whole numbers: numpy's own results."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostcc.schedule import sorting

pytestmark = pytest.mark.unit

KEYS = st.one_of(
    st.lists(st.integers(0, 9), max_size=60), st.lists(st.integers(0, 2**62), max_size=9)
)


@pytest.mark.parametrize("top", [9, 2**16, 2**20, 2**40, 2**63 - 1])
def test_many_as_numpy_does(top: int) -> None:
    key = np.random.default_rng(0).integers(0, top, 2 * sorting.MAX_COMPARISON_KEYS)
    assert np.array_equal(sorting.order(key), np.argsort(key, kind="stable"))


@given(KEYS)
def test_as_numpy_does(keys: list[int]) -> None:
    key = np.array(keys, np.int64)
    assert sorting.order(key).tolist() == np.argsort(key, kind="stable").tolist()
    values, where = sorting.unique(key)
    expected, place = np.unique(key, return_inverse=True)
    assert values.tolist() == expected.tolist()
    assert where.tolist() == place.reshape(-1).tolist()


@pytest.mark.parametrize("count", [0, 1, 3, 3000])
def test_distinct_keys(count: int) -> None:
    key = np.random.default_rng(count).integers(0, 100, count)
    assert sorting.distinct(key).tolist() == np.unique(key).tolist()
