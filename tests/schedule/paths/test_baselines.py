"""ECMP's hash spreads, annealing improves; both are the same every time."""

from __future__ import annotations

import numpy as np
import pytest

from hostcc.schedule.paths import baselines, two_layer
from hostcc.schedule.paths import clos as closes
from tests.schedule.paths import cases

pytestmark = pytest.mark.unit


def test_the_hash_spreads_over_usable_candidates_only() -> None:
    clos = closes.without_spines(closes.uniform(3, 4), [1])
    flows = cases.random_flows(1, 3, 3000)
    fabric, table = closes.fabric(clos, flows)
    found = baselines.ecmp(fabric, table, np.arange(3000))
    counts = np.bincount(found, minlength=4)
    assert counts[1] == 0
    assert counts[[0, 2, 3]].min() > 900
    assert not np.array_equal(found, baselines.ecmp(fabric, table, np.arange(3000), seed=1))


def test_the_hash_is_a_known_function_of_the_key() -> None:
    fabric = cases.ragged([1.0] * 4, [[[0], [1], [2], [3]], [[]]])
    found = baselines.ecmp(fabric, np.zeros(8, np.int64), np.arange(8))
    assert found.tolist() == [3, 2, 1, 1, 1, 0, 3, 3]  # SplitMix64 in plain integers
    assert baselines.ecmp(fabric, np.array([1]), np.array([5])).tolist() == [0]


def test_a_flow_without_a_path_gets_none() -> None:
    fabric = cases.ragged([0.0], [[[0]]])
    assert baselines.ecmp(fabric, np.array([0]), np.array([5])).tolist() == [-1]


def test_annealing_is_better_than_the_hash_and_repeats() -> None:
    clos, flows = closes.uniform(8, 4), cases.random_flows(2, 8, 60, unequal=True)
    fabric, table = closes.fabric(clos, flows)
    start = baselines.ecmp(fabric, table, np.arange(60))
    target = closes.bound(clos, flows)
    results = [
        baselines.anneal(fabric, table, flows.demand, start, target=target, iterations=3000)
        for _ in range(2)
    ]
    assert np.array_equal(results[0], results[1])
    before, after = (two_layer.peak(clos, flows, found) for found in (start, results[0]))
    assert target <= after < before
    assert fabric.usable[table, results[0]].all()


def test_annealing_with_nothing_to_choose() -> None:
    fabric = cases.ragged([1.0], [[[0]]])
    none = np.empty(0, np.int64)
    assert not len(baselines.anneal(fabric, none, np.empty(0), none, target=1.0))
    one = np.array([0])
    assert baselines.anneal(fabric, one, np.ones(1), one, target=0.5).tolist() == [0]
