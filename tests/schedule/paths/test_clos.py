"""Two-layer Clos: what is refused, and bounds that are bounds."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from benchmarks import routing_optimum
from hostcc.schedule.errors import ViewError
from hostcc.schedule.paths import clos as closes
from hostcc.schedule.paths.clos import Flows
from tests.refusals import is_one_line
from tests.schedule.paths import cases

pytestmark = pytest.mark.unit


def flows(*rows: tuple[int, int, float]) -> Flows:
    src, dst, demand = zip(*rows, strict=True) if rows else ((), (), ())
    return Flows(np.array(src, np.int64), np.array(dst, np.int64), np.array(demand, np.float64))


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ((0, 1, math.nan), "demand"),
        ((0, 1, -1.0), "demand"),
        ((0, 1, math.inf), "demand"),
        ((0, 3, 1.0), "ToRs from 0 to 2"),
        ((-1, 0, 1.0), "ToRs from 0 to 2"),
        ((0, 2, 1.0), "a spine that links ToRs 0 and 2"),
    ],
)
def test_flows_that_cannot_be_are_refused(row: tuple[int, int, float], words: str) -> None:
    clos = closes.without_links(closes.uniform(3, 2), [(2, 0), (0, 1)])
    with pytest.raises(ViewError, match=words) as error:
        closes.check(clos, flows((0, 1, 1.0), row))
    assert is_one_line(str(error.value))


@pytest.mark.parametrize("value", [math.nan, -1.0, math.inf])
def test_capacities_that_cannot_be_are_refused(value: float) -> None:
    matrix = np.ones((2, 2))
    with pytest.raises(ViewError, match="capacity"):
        closes.make(matrix, np.where(np.eye(2) > 0, value, 1.0))


def test_failures_take_links_away() -> None:
    clos = closes.without_spines(closes.uniform(3, 4), [1])
    assert clos.up[:, 1].sum() == clos.down[:, 1].sum() == 0
    clos = closes.without_links(clos, [(2, 3)])
    assert (clos.up == 0).sum() == 4


@pytest.mark.parametrize("case", cases.GOLDEN, ids=lambda case: case["name"])
def test_the_bound_is_between_the_known_one_and_the_optimum(case: dict[str, Any]) -> None:
    bound = closes.bound(*cases.golden(case))
    assert case["lower_bound"] - 1e-9 <= bound <= case["optimal_max_load"]


def test_flows_that_must_share_a_link_raise_the_bound() -> None:
    clos = closes.uniform(4, 2)
    assert closes.bound(clos, flows((0, 1, 5.0), (0, 2, 4.0), (0, 3, 4.0))) == 8.0
    assert closes.bound(clos, flows((0, 1, 9.0), (0, 2, 0.5))) == 9.0


def test_flows_that_reach_few_spines_raise_the_bound() -> None:
    clos = closes.without_links(closes.uniform(3, 4), [(1, 0), (1, 1), (1, 2)])
    assert closes.bound(clos, flows((0, 1, 1.0), (0, 1, 1.0), (0, 2, 1.0))) == 2.0


@pytest.mark.parametrize("seed", range(6))
def test_the_bound_never_passes_the_optimum(seed: int) -> None:
    generator = np.random.default_rng(seed)
    clos = closes.make(*(generator.choice([0.5, 1.0, 2.0], (4, 3)) for _ in range(2)))
    traffic = cases.random_flows(seed, 4, 12, unequal=True)
    best = routing_optimum.solve(clos, traffic, seconds=20)
    assert closes.bound(clos, traffic) <= best.found * (1 + 1e-6)


def test_whole_demands_make_few_loads() -> None:
    rate = np.tile([1.0, 2.5], (3, 1))
    clos = closes.make(rate, rate)
    six = flows(*[(0, 1, 1.0)] * 6)
    assert closes.attainable(clos, six, 1.65) == 2.0
    assert closes.attainable(clos, six, 1.6) == 1.6
    assert closes.bound(clos, six) == 2.0
    assert closes.attainable(clos, flows((0, 1, 0.3)), 1.65) == 1.65


def test_no_flows_need_nothing() -> None:
    assert closes.bound(closes.uniform(2, 2), flows()) == 0.0
    assert closes.bound(closes.uniform(2, 2), flows((1, 1, 7.0))) == 0.0
