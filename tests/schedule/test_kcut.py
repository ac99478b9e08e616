"""Exact K-cut: against the stored optima, brute force, and another minimum cut."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostcc.schedule import compression, kcut
from hostcc.schedule.contention_graph import ContentionGraph
from hostcc.schedule.errors import CycleError, OptionsError
from hostcc.schedule.problem import Ints
from tests.schedule.exact import cases

pytestmark = pytest.mark.unit


def of(jobs: int, edges: list[Any]) -> ContentionGraph:
    array = np.array(edges, float).reshape(-1, 3)
    return ContentionGraph.of(jobs, array[:, 0].astype(int), array[:, 1].astype(int), array[:, 2])


def respects(graph: ContentionGraph, levels: Ints) -> bool:
    """Whether no edge leads to a higher priority."""
    return bool((levels[graph.first] <= levels[graph.second]).all())


@pytest.mark.parametrize("case", cases("kcut"))
def test_stored_optimum(case: Any) -> None:
    graph = of(case["n"], case["edges"])
    found = kcut.exact(graph, case["K"])
    assert found.tolist() == case["level_min"]
    edges = np.array(case["edges"])
    cut = edges[found[edges[:, 0].astype(int)] < found[edges[:, 1].astype(int)], 2].sum()
    assert cut == pytest.approx(case["optimal_cut"], abs=1e-6)
    share = graph.cut(found) / max(1, graph.weight.sum())
    assert share == pytest.approx(case["optimal_cut"] / case["total_weight"], abs=1e-6)


def test_weights_of_any_size_keep_their_ratios() -> None:
    for exponent in (-1074, -1000, 0, 1000):
        graph = of(3, [(0, 1, 2.0**exponent), (1, 2, 4 * 2.0**exponent)])
        assert graph.weight.tolist() == [1 << 27, 1 << 29]


@st.composite
def graphs(draw: st.DrawFn) -> tuple[ContentionGraph, int]:
    jobs = draw(st.integers(1, 6))
    names = draw(st.permutations(range(jobs)))
    pairs = [(a, b) for a in range(jobs) for b in range(a + 1, jobs)]
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    edges = [(names[a], names[b], draw(st.integers(0, 9))) for a, b in chosen]
    return of(jobs, edges), draw(st.integers(1, 3))


def brute(graph: ContentionGraph, levels: int) -> tuple[int, list[int]]:
    """The optimum and the componentwise smallest levels that reach it."""
    all_levels = [np.array(each) for each in product(range(levels), repeat=graph.jobs)]
    valid = [each for each in all_levels if respects(graph, each)]
    best = max(graph.cut(each) for each in valid)
    return best, np.min([each for each in valid if graph.cut(each) == best], axis=0).tolist()


@settings(max_examples=150, deadline=None)
@given(graphs())
def test_equals_brute_force(made: tuple[ContentionGraph, int]) -> None:
    graph, levels = made
    best, smallest = brute(graph, levels)
    assert graph.cut(kcut.exact(graph, levels)) == best
    assert kcut.exact(graph, levels).tolist() == smallest


@settings(max_examples=60, deadline=None)
@given(graphs())
def test_every_method_is_valid_and_none_beats_the_exact(made: tuple[ContentionGraph, int]) -> None:
    graph, levels = made
    rank = np.empty(graph.jobs, np.int64)
    rank[graph.topological()] = np.arange(graph.jobs)
    best = graph.cut(kcut.exact(graph, levels))
    for name, method in compression.METHODS.items():
        found = method(graph, rank, levels)
        assert respects(graph, found), name
        assert found.min() >= 0, name
        assert found.max() < levels, name
        assert graph.cut(found) <= best, name


@pytest.mark.parametrize("case", cases("kcut"))
def test_algorithm1(case: Any) -> None:
    graph = of(case["n"], case["edges"])
    rank = np.empty(graph.jobs, np.int64)
    rank[graph.topological()] = np.arange(graph.jobs)
    found = compression.algorithm1(graph, rank, case["K"], orders=40)
    assert graph.cut(found) >= 0.9 * graph.cut(kcut.exact(graph, case["K"]))


def random_graph(jobs: int, edges: int, seed: int) -> ContentionGraph:
    rng = np.random.default_rng(seed)
    one, other = rng.integers(0, jobs, (2, edges))
    keep = one != other
    rank = rng.permutation(jobs)
    first = np.where(rank[one] < rank[other], one, other)[keep]
    second = np.where(rank[one] < rank[other], other, one)[keep]
    value = rng.integers(1, 2**20, jobs).astype(float)
    return ContentionGraph.of(jobs, first, second, value[first])


@pytest.mark.parametrize("seed", range(4))
def test_equals_the_linear_programme(seed: int) -> None:
    from scipy.optimize import linprog
    from scipy.sparse import coo_array

    graph, levels = random_graph(60, 300, seed), 4
    jobs, edges = graph.jobs, len(graph.first)
    # Variables: levels, then the cut of every edge; cut <= l(v) - l(u), cut <= 1.
    rows = np.tile(np.arange(edges), 3)
    columns = np.concatenate([graph.first, graph.second, jobs + np.arange(edges)])
    values = np.repeat([1.0, -1.0, 1.0], edges)
    matrix = coo_array((values, (rows, columns)), shape=(edges, jobs + edges))
    bounds = [(0, levels - 1)] * jobs + [(0, 1)] * edges
    weight = np.concatenate([np.zeros(jobs), -graph.weight.astype(float)])
    found = linprog(weight, A_ub=matrix, b_ub=np.zeros(edges), bounds=bounds)
    assert graph.cut(kcut.exact(graph, levels)) == pytest.approx(-found.fun, rel=1e-9)


def test_cycle_is_named() -> None:
    with pytest.raises(CycleError, match="expected no cycle"):
        of(3, [[0, 1, 1.0], [1, 2, 1.0], [2, 0, 1.0]])


def test_bad_weights() -> None:
    for weight in (-1.0, float("nan"), float("inf")):
        with pytest.raises(OptionsError, match="weight"):
            of(2, [[0, 1, weight]])


def test_nothing_and_one() -> None:
    assert kcut.exact(of(0, []), 3).tolist() == []
    assert kcut.exact(of(1, []), 3).tolist() == [0]
    assert compression.algorithm1(of(0, []), np.zeros(0, int), 3).tolist() == []


def test_reserved_levels() -> None:
    assert compression.usable_levels(4, (0, 2)).tolist() == [1, 3]
    for levels, reserved in ((0, ()), (2, (0, 1)), (2, (2,)), (2, (-1,))):
        with pytest.raises(OptionsError):
            compression.usable_levels(levels, reserved)


@settings(max_examples=150, deadline=None)
@given(graphs(), st.integers(0, 10**6))
def test_wherever_the_search_begins(made: tuple[ContentionGraph, int], seed: int) -> None:
    graph, levels = made
    rng = np.random.default_rng(seed)
    like = kcut.Cut(
        rng.integers(-1, levels + 2, graph.jobs),
        rng.integers(0, 2 * int(graph.weight.max(initial=1)), len(graph.first)),
    )
    found = kcut.cut(graph, levels, like)
    assert found.level.tolist() == kcut.exact(graph, levels).tolist()
    again = kcut.cut(graph, levels, found)
    assert again.level.tolist() == found.level.tolist()


def test_a_large_graph_after_a_small_change() -> None:
    graph, other = random_graph(400, 3000, 1), random_graph(400, 3000, 2)
    like = kcut.cut(graph, 6)
    for changed in (graph, other):
        x = np.resize(like.x, len(changed.first))
        found = kcut.cut(changed, 6, kcut.Cut(like.level, x))
        assert np.array_equal(found.level, kcut.exact(changed, 6))
