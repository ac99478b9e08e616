"""Local search: never worse, down to the floor, moves, exchanges and chains."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostcc.schedule.paths import fabric as fabrics
from hostcc.schedule.paths import local_search
from hostcc.schedule.paths.fabric import Fabric, Floats, Ints
from tests.schedule.paths import cases

pytestmark = pytest.mark.unit


def profile(fabric: Fabric, table: Ints, demand: Floats, choice: Ints) -> list[float]:
    load = fabrics.loads(fabric, table, demand, choice)
    return sorted((load / fabric.capacity)[:-2].tolist(), reverse=True)


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 9)), min_size=1, max_size=15),
    st.lists(st.sampled_from([0.0, 1.0, 1.0, 3.0]), min_size=6, max_size=6),
)
def test_the_loads_never_become_worse(flows: list[tuple[int, int]], capacity: list[float]) -> None:
    tables = [[[0, 3], [1, 4], [2]], [[0, 4], [5], [1, 2, 3]], [[3], [4], [5, 0]]]
    fabric = cases.ragged(capacity, tables)
    usable = fabric.usable
    table = np.array([flow[0] for flow in flows if usable[flow[0]].any()], np.int64)
    demand = np.array([flow[1] for flow in flows if usable[flow[0]].any()], np.float64)
    start = usable[table].argmax(axis=1)
    found = local_search.improve(fabric, table, demand, start)
    assert np.all(usable[table, found])
    before, after = (profile(fabric, table, demand, choice) for choice in (start, found))
    assert after <= before


def two_links() -> Fabric:
    return cases.ragged([1.0, 1.0], [[[0], [1]]])


def test_moves_reach_the_best_split() -> None:
    table, demand = np.zeros(4, np.int64), np.array([4.0, 3.0, 2.0, 1.0])
    found = local_search.improve(two_links(), table, demand, np.zeros(4, np.int64))
    assert profile(two_links(), table, demand, found) == [5.0, 5.0]


def test_an_exchange_where_no_single_move_helps() -> None:
    table, demand = np.zeros(4, np.int64), np.array([5.0, 4.0, 3.0, 2.0])
    start = np.array([0, 0, 1, 1])
    found = local_search.improve(two_links(), table, demand, start)
    assert profile(two_links(), table, demand, found) == [7.0, 7.0]


def test_it_stops_at_the_floor_and_after_its_steps() -> None:
    table, demand = np.zeros(4, np.int64), np.array([4.0, 3.0, 2.0, 1.0])
    start = np.zeros(4, np.int64)
    for limits in ({"floor": 10.0}, {"steps": 0}):
        found = local_search.improve(two_links(), table, demand, start, **limits)
        assert found.tolist() == start.tolist()


def test_flows_that_may_not_move_stay() -> None:
    table, demand = np.zeros(4, np.int64), np.array([4.0, 3.0, 2.0, 1.0])
    movable = np.array([False, True, False, True])
    found = local_search.improve(two_links(), table, demand, np.zeros(4, np.int64), movable=movable)
    assert found[~movable].tolist() == [0, 0]
    assert profile(two_links(), table, demand, found) == [6.0, 4.0]
