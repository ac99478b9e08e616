"""One flow after the other: the listed order, longest first, and the factor that is lost."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given

from hostcc.schedule.paths import clos as closes
from hostcc.schedule.paths import greedy, two_layer
from hostcc.schedule.paths.clos import Clos, Flows
from tests.schedule.paths import cases

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("case", cases.GOLDEN, ids=lambda case: case["name"])
def test_the_listed_order_loses_what_is_known(case: dict[str, Any]) -> None:
    clos, flows = cases.golden(case)
    spines = greedy.listed_order(*closes.fabric(clos, flows), flows.demand)
    assert two_layer.peak(clos, flows, spines) == case["greedy_listed_order"]


@pytest.mark.parametrize(
    "case", [c for c in cases.GOLDEN if c["name"].startswith("dem")], ids=lambda case: case["name"]
)
def test_longest_first_is_what_is_known(case: dict[str, Any]) -> None:
    clos, flows = cases.golden(case)
    spines = greedy.longest_first(*closes.fabric(clos, flows), flows.demand)
    assert two_layer.peak(clos, flows, spines) == case["lpt"]


@given(cases.fabrics_and_flows())
def test_the_factor_holds_on_equal_links(case: tuple[Clos, Flows]) -> None:
    flows = case[1]
    clos = closes.uniform(case[0].tors, case[0].spines)
    spines = greedy.listed_order(*closes.fabric(clos, flows), flows.demand)
    best = closes.bound(clos, flows)
    assert two_layer.peak(clos, flows, spines) <= best * (3 - 2 / clos.spines) * (1 + 1e-9)


def test_flows_without_a_path_are_not_placed() -> None:
    fabric = cases.ragged([1.0, 0.0], [[[0]], [[1]]])
    found = greedy.listed_order(fabric, np.array([0, 1, 0]), np.ones(3))
    assert found.tolist() == [0, -1, 0]
