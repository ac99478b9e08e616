"""Path choice on two-layer Clos: optimal where that is known, valid and the same everywhere."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import routing_optimum
from hostcc.schedule.errors import ViewError
from hostcc.schedule.paths import clos as closes
from hostcc.schedule.paths import two_layer
from hostcc.schedule.paths.clos import Clos, Flows
from tests import hash_seeds
from tests.schedule.paths import cases

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("case", cases.GOLDEN, ids=lambda case: case["name"])
def test_golden_cases_are_solved_to_the_optimum(case: dict[str, Any]) -> None:
    found = two_layer.route(*cases.golden(case))
    assert found.peak == pytest.approx(case["optimal_max_load"], rel=1e-12)


@pytest.mark.parametrize(("tors", "spines", "count"), [(8, 8, 64), (16, 4, 300), (64, 32, 2048)])
def test_equal_demands_take_the_largest_degree_over_spines(
    tors: int, spines: int, count: int
) -> None:
    flows = cases.random_flows(1, tors, count)
    found = two_layer.route(closes.uniform(tors, spines), flows)
    assert found.peak == -(-cases.degree(flows) // spines)
    assert found.optimal


@pytest.mark.parametrize("failed", [1, 4, 8])
def test_equal_demands_are_exact_after_spines_have_failed(failed: int) -> None:
    flows = cases.random_flows(failed, 64, 1000)
    clos = closes.without_spines(closes.uniform(64, 32), range(failed))
    found = two_layer.route(clos, flows)
    assert found.peak == -(-cases.degree(flows) // (32 - failed))
    assert found.spine.min() >= failed


@pytest.mark.parametrize("seed", range(12))
def test_equal_demands_are_exact_after_links_have_failed(seed: int) -> None:
    generator = np.random.default_rng(seed)
    links = [(int(generator.integers(8)), int(generator.integers(6))) for _ in range(1 + seed)]
    clos = closes.without_links(closes.uniform(8, 6), links)
    flows = cases.random_flows(seed, 8, 20 + 4 * seed)
    found = two_layer.route(clos, flows)
    best = found.bound if found.optimal else routing_optimum.solve(clos, flows, seconds=20).found
    assert found.peak == pytest.approx(best, rel=1e-6)


def test_unequal_demands_are_close_to_the_optimum() -> None:
    ratios = []
    for seed in range(15):
        clos, flows = closes.uniform(4, 3), cases.random_flows(seed, 4, 14, unequal=True)
        best = routing_optimum.solve(clos, flows, seconds=20)
        ratios.append(two_layer.route(clos, flows).peak / best.found)
    assert min(ratios) > 1 - 1e-6
    assert np.mean(ratios) <= 1.01


def test_unequal_links_are_close_to_the_optimum() -> None:
    ratios = []
    for seed in range(10):
        generator = np.random.default_rng(seed)
        clos = closes.make(*(generator.choice([1.0, 2.0, 4.0], (5, 3)) for _ in range(2)))
        flows = cases.random_flows(seed, 5, 14, unequal=True)
        best = routing_optimum.solve(clos, flows, seconds=20)
        ratios.append(two_layer.route(clos, flows).peak / best.found)
    assert np.mean(ratios) <= 1.01


@given(cases.fabrics_and_flows())
def test_every_flow_is_on_a_path_of_its_pair_and_no_failed_link_is_used(
    case: tuple[Clos, Flows],
) -> None:
    clos, flows = case
    found = two_layer.route(clos, flows)
    local = flows.src == flows.dst
    assert np.array_equal(found.spine == -1, local)
    out = ~local
    assert np.all(clos.up[flows.src[out], found.spine[out]] > 0)
    assert np.all(clos.down[flows.dst[out], found.spine[out]] > 0)
    assert found.bound <= found.peak * (1 + 1e-9)


@settings(max_examples=60, derandomize=True)
@given(cases.fabrics_and_flows(equal=True))
def test_equal_demands_over_any_links_are_exact(case: tuple[Clos, Flows]) -> None:
    found = two_layer.route(*case)
    best = found.bound if found.optimal else routing_optimum.solve(*case, seconds=30).found
    assert found.peak == pytest.approx(best, rel=1e-6)


@given(cases.fabrics_and_flows(), st.randoms(use_true_random=False))
def test_the_order_of_the_flows_does_not_matter(case: tuple[Clos, Flows], random: Any) -> None:
    clos, plain = case
    count = len(plain.src)
    flows = Flows(plain.src, plain.dst, plain.demand, np.arange(count))
    shuffle = np.array(random.sample(range(count), count), np.int64)
    other = Flows(plain.src[shuffle], plain.dst[shuffle], plain.demand[shuffle], shuffle)
    first, second = two_layer.route(clos, flows), two_layer.route(clos, other)
    assert np.array_equal(first.spine[shuffle], second.spine)


def test_groups_share_no_link_and_may_be_routed_in_parallel() -> None:
    flows = cases.random_flows(5, 40, 30, unequal=True)
    groups = two_layer.components(flows)
    assert len(groups) > 1
    assert sorted(np.concatenate(groups).tolist()) == list(range(30))
    for ends in (flows.src, flows.dst):
        used = [set(ends[group].tolist()) for group in groups]
        assert sum(map(len, used)) == len(set().union(*used))
    clos = closes.uniform(40, 3)
    with ThreadPoolExecutor(2) as pool:
        parallel = two_layer.route(clos, flows, mapper=pool.map)
    assert np.array_equal(parallel.spine, two_layer.route(clos, flows).spine)


def test_no_flow_and_one_flow() -> None:
    clos = closes.uniform(2, 2)
    none = np.empty(0, np.int64)
    empty = two_layer.route(clos, Flows(none, none, np.empty(0)))
    assert (empty.peak, empty.bound, empty.optimal) == (0.0, 0.0, True)
    one = two_layer.route(clos, Flows(np.array([0]), np.array([1]), np.array([3.0])))
    assert (one.spine.tolist(), one.peak, one.optimal) == ([0], 3.0, True)


def test_a_cut_pair_is_refused() -> None:
    clos = closes.without_links(closes.uniform(2, 1), [(0, 0)])
    with pytest.raises(ViewError, match="got none"):
        two_layer.route(clos, Flows(np.array([0]), np.array([1]), np.array([3.0])))


PROGRAM = """
import sys
from hostcc.schedule.paths import clos, two_layer
from tests.schedule.paths import cases
flows = cases.random_flows(7, 8, 90, unequal=True)
sys.stdout.buffer.write(two_layer.route(clos.uniform(8, 4), flows).spine.tobytes())
"""


def test_another_process_with_another_hash_seed_finds_the_same_bytes() -> None:
    assert len(hash_seeds.output(PROGRAM)) == 90 * 8
