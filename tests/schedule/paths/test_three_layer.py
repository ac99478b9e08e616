"""Three layers: valid paths, loads at the bound for equal demands, failed cores."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostcc.schedule.errors import ViewError
from hostcc.schedule.paths import fabric as fabrics
from hostcc.schedule.paths import three_layer
from hostcc.schedule.paths.three_layer import Clos3
from tests.schedule.paths import cases

pytestmark = pytest.mark.unit


def without_cores(clos: Clos3, cores: Iterable[tuple[int, int]]) -> Clos3:
    """The same after cores (plane, number) have failed."""
    high = clos.high.copy()
    for plane, core in cores:
        high[:, :, plane, core] = 0.0
    return replace(clos, high=high)


def test_paths_are_what_the_fabric_has() -> None:
    clos = three_layer.uniform(2, 2, 2, 2)
    src, dst = np.array([0, 0, 0]), np.array([2, 1, 0])
    fabric, table = three_layer.fabric(clos, src, dst)
    assert fabric.link_count == 2 * 2 * 2 * 2 * 2
    between, within, local = fabric.table[table]
    pad, barred = 32, 33
    # ToR 0 up to plane 1, pod 0 up to core 3, core 3 down to pod 1, plane 1 down to ToR 2.
    assert between[3].tolist() == [1, 16 + 3, 24 + 4 + 3, 8 + 2 * 2 + 1]
    assert within.tolist() == [[0, pad, pad, 10], [barred] * 4, [1, pad, pad, 11], [barred] * 4]
    assert local.tolist() == [[pad] * 4] + [[barred] * 4] * 3


@pytest.mark.parametrize("seed", range(5))
def test_a_permutation_on_a_full_fabric_is_routed_without_contention(seed: int) -> None:
    pods, tors, planes, cores = 4, 4, 4, 4
    nics = pods * tors * planes
    target = np.random.default_rng(seed).permutation(nics)
    src, dst = np.arange(nics) // planes, target // planes
    found = three_layer.route(
        three_layer.uniform(pods, tors, planes, cores), src, dst, np.ones(nics)
    )
    assert found.peak == pytest.approx(1.0)
    assert found.optimal


def test_random_equal_demands_end_at_the_bound() -> None:
    for seed in range(5):
        flows = cases.random_flows(seed, 12, 150)
        found = three_layer.route(
            three_layer.uniform(4, 3, 3, 2), flows.src, flows.dst, flows.demand
        )
        assert found.peak == pytest.approx(found.bound)


def test_unequal_demands_are_near_the_bound() -> None:
    flows = cases.random_flows(1, 12, 300, unequal=True)
    found = three_layer.route(three_layer.uniform(4, 3, 3, 2), flows.src, flows.dst, flows.demand)
    assert found.bound <= found.peak * (1 + 1e-9) <= found.bound * 1.03


@st.composite
def traffic(draw: st.DrawFn) -> tuple[Clos3, np.ndarray, np.ndarray, np.ndarray]:
    clos = three_layer.uniform(3, 2, 2, 2)
    failed = draw(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1)), max_size=3))
    clos = without_cores(clos, [cell for cell in failed if cell != (1, 1)])
    rows = draw(
        st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.floats(0, 1e9)), max_size=30)
    )
    src, dst = (np.array([row[end] for row in rows], np.int64) for end in (0, 1))
    return clos, src, dst, np.array([row[2] for row in rows], np.float64)


@given(traffic())
def test_every_flow_has_a_path_that_lives(
    case: tuple[Clos3, np.ndarray, np.ndarray, np.ndarray],
) -> None:
    clos, src, dst, demand = case
    found = three_layer.route(clos, src, dst, demand)
    fabric, table = three_layer.fabric(clos, src, dst)
    assert fabric.usable[table, found.choice].all()
    load = fabrics.loads(fabric, table, demand, found.choice)
    assert found.peak == pytest.approx(fabrics.peak(fabric, load), rel=1e-6, abs=1e-9)
    assert found.bound <= found.peak * (1 + 1e-9)


@given(traffic(), st.randoms(use_true_random=False))
def test_the_order_of_the_flows_does_not_matter(
    case: tuple[Clos3, np.ndarray, np.ndarray, np.ndarray], random: object
) -> None:
    clos, src, dst, demand = case
    key = np.arange(len(src))
    first = three_layer.route(clos, src, dst, demand, key)
    back = key[::-1]
    second = three_layer.route(clos, src[back], dst[back], demand[back], back)
    assert np.array_equal(first.choice[back], second.choice)


def test_what_cannot_be_is_refused() -> None:
    clos = without_cores(three_layer.uniform(2, 1, 1, 1), [(0, 0)])
    one = np.array([0])
    with pytest.raises(ViewError, match="got none"):
        three_layer.route(clos, one, one + 1, np.ones(1))
    with pytest.raises(ViewError, match="ToRs from 0 to 1"):
        three_layer.route(clos, one, one + 2, np.ones(1))
    with pytest.raises(ViewError, match="demand"):
        three_layer.route(clos, one, one, np.array([np.nan]))
