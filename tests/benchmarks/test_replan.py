"""Cases of the benchmark of plans from any start, and the record of a few."""

from __future__ import annotations

import argparse

import pytest

from benchmarks import record, replan, replan_cases
from benchmarks.context import Context
from hostcc.schedule.plan import Options
from hostcc.schedule.problem import build

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("number", range(4))
def test_starts_are_as_described(number: int) -> None:
    case = replan_cases.draw(1, number, (4,), (3,), (8,), replan_cases.STARTS)
    assert case.start == replan_cases.STARTS[number]
    view = replan_cases.started(1, case, Options())
    assert view == replan_cases.started(1, case, Options())
    problem = build(view)
    assert (problem.flow_path >= 0).all()
    used = {flow.path for flow in view.flows}
    assert ("s000" in used) == (case.start in ("ecmp", "others"))
    assert (("t000>s000", 0.0) in view.links) == (case.start == "death")


def test_record() -> None:
    args = argparse.Namespace(tors=(4,), spines=(2,), jobs=(7,), starts=("ecmp",), seed=0, cases=2)
    found = replan.run(args, Context(1, None))
    assert len(found.rows) == 2
    assert len(found.goals) == 5
    for row in found.rows:
        assert all(0 < float(str(row[key])) < 1.1 for key in ("present", "agents", "blank"))
    assert found.goals[-1].met
    assert record.decode(record.encode(found)).rows == found.rows


def test_a_choice_that_seems_better_for_a_few_iterations_is_not_taken() -> None:
    """Jobs that begin at random moments first do more on paths on which they lose later."""
    case = replan_cases.draw(0, 14, (4,), (2, 3, 4, 8), (8, 16, 24), replan_cases.STARTS)
    row = replan.measure(0, case)
    assert float(str(row["agents"])) >= 0.999 * float(str(row["crux"]))
