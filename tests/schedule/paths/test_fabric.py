"""Candidate paths as arrays: padding, failed links, exact sums."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostcc import model
from hostcc.schedule import problem as problems
from hostcc.schedule.errors import ViewError
from hostcc.schedule.paths import fabric as fabrics
from tests.schedule.paths import cases

pytestmark = pytest.mark.unit


def test_ragged_candidates_are_padded_and_failed_links_barred() -> None:
    fabric = cases.ragged([1.0, 0.0, 2.0], [[[0, 2], [1]], [[2]]])
    assert fabric.table.tolist() == [[[0, 2], [4, 4]], [[2, 3], [4, 4]]]
    assert fabric.usable.tolist() == [[True, False], [True, False]]
    table, demand = np.array([0, 1, 1]), np.array([5.0, 2.0, 9.0])
    load = fabrics.loads(fabric, table, demand, np.array([0, 0, -1]))
    assert load[:3].tolist() == [5.0, 0.0, 7.0]
    assert fabrics.peak(fabric, load) == 5.0


@pytest.mark.parametrize("value", [math.nan, math.inf, -1.0])
def test_capacities_and_demands_are_checked(value: float) -> None:
    with pytest.raises(ViewError, match="capacity"):
        cases.ragged([value], [[[0]]])
    with pytest.raises(ViewError, match="demand"):
        fabrics.integer_demands(np.array([1.0, value]))


def test_unknown_links_are_refused() -> None:
    with pytest.raises(ViewError, match="from 0 to 0"):
        fabrics.make(np.ones(1), np.array([[[3]]]))


@given(st.lists(st.floats(0, 1e30), min_size=1, max_size=50), st.randoms())
def test_whole_demands_add_up_to_the_same_in_any_order(values: list[float], random: object) -> None:
    integer_demands = fabrics.integer_demands(np.array(values))
    assert np.all(integer_demands % 1 == 0)
    assert integer_demands.sum() < 2**53
    assert (
        sum(sorted(integer_demands.tolist()))
        == sum(integer_demands.tolist())
        == sum(integer_demands.tolist()[::-1])
    )


def test_whole_demands_keep_their_proportions() -> None:
    integer_demands = fabrics.integer_demands(np.array([3.0, 6.0, 0.0]))
    assert integer_demands[1] == 2 * integer_demands[0] > 0
    assert integer_demands[2] == 0
    assert fabrics.integer_demands(np.empty(0)).tolist() == []


def test_a_problem_becomes_a_fabric_with_the_same_candidates() -> None:
    path = model.Path
    view = model.ClusterView(
        jobs=(model.JobProfile("j", 1.0, 1.0, 1.0, 1.0),),
        flows=(model.Flow("f", "j", "a", "b", 5.0), model.Flow("g", "j", "b", "a", 5.0)),
        tables=(
            model.PathTable("a", "b", (path("1", ("x", "y")), path("2", ("z",)))),
            model.PathTable("b", "a", (path("1", ("z",)),)),
        ),
        links=(("x", 1.0), ("y", 2.0), ("z", 3.0)),
    )
    built = problems.build(view)
    fabric = fabrics.from_problem(built)
    assert fabric.capacity[:3].tolist() == [1.0, 2.0, 3.0]
    assert fabric.table.tolist() == [[[0, 1], [2, 3]], [[2, 3], [4, 4]]]
