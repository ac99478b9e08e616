"""Orders of others, on cases small enough to do by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostcc.model import Flow, Path, PathTable
from hostcc.schedule import baseline_orders as orders
from hostcc.schedule.problem import build
from hostcc.sim.small import small_case
from tests.schedule.views import job, one_link

pytestmark = pytest.mark.unit

NOTHING = np.zeros(0, np.int64)


def test_by_hand() -> None:
    view = one_link([job("a", work=6.0), job("b", work=2.0), job("c", work=9.0)], [3.0, 1.0, 2.0])
    problem = build(view)
    routing = np.zeros(3, np.int64)
    assert orders.by_intensity(problem, routing).tolist() == [1, 2, 0]  # 2, 2, 4.5
    assert orders.varys(problem, routing).tolist() == [2, 0, 1]
    assert orders.sincronia(problem, routing).tolist() == [2, 0, 1]


def test_crux_example_1_puts_the_second_first() -> None:
    view = one_link([job("a", compute=2.0, work=10.0), job("b", work=5.0)], [2.0, 1.0])
    problem = build(view)
    assert orders.by_intensity(problem, np.zeros(2, int)).tolist() == [0, 1]
    assert orders.crux(problem, np.zeros(2, int)).tolist() == [1, 0]


@given(st.integers(0, 10**6))
@settings(max_examples=20, deadline=None)
def test_every_order_is_one(index: int) -> None:
    problem = build(small_case(7, index))
    routing = problem.table_start[problem.flow_table]
    for order in (orders.by_hash, orders.by_intensity, orders.crux, orders.varys, orders.sincronia):
        assert sorted(order(problem, routing).tolist()) == list(range(problem.job_count))


def test_a_load_is_not_lost_beside_one_that_is_much_greater() -> None:
    view = one_link([job("a"), job("b"), job("c")], [1.0, 2.0**60, 1.0])
    unused = PathTable("b", "a", (Path("p0", ("idle",)),))
    flow = Flow("f", "b", "b", "a", 1.0)
    links = (("idle", 1.0), *view.links)
    made = replace(view, flows=(*view.flows, flow), tables=(*view.tables, unused), links=links)
    problem = build(made)
    routing = problem.table_start[problem.flow_table]
    assert orders.sincronia(problem, routing).tolist() == [1, 2, 0]


def test_jobs_without_traffic_come_last() -> None:
    view = one_link([job("a"), job("b"), job("c")], [0.0, 1.0, 2.0])
    problem = build(view)
    routing = np.zeros(2, np.int64)
    for order in (orders.by_intensity, orders.crux, orders.sincronia):
        assert order(problem, routing)[0] == 2
