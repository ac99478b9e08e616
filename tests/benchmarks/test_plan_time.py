"""The views whose plans are timed, and the record of a tiny one."""

from __future__ import annotations

import argparse

import pytest

from benchmarks import plan_time, record
from benchmarks.context import Context
from hostcc.schedule.plan import plan
from hostcc.schedule.problem import build

pytestmark = pytest.mark.unit


def test_views_are_as_described() -> None:
    view = plan_time.clos_view(6, 24, 4, 3, seed=1)
    assert plan_time.clos_view(6, 24, 4, 3, seed=1) == view
    assert (len(view.jobs), len(view.flows), len(view.tables)) == (6, 24, 12)
    problem = build(view)
    assert (problem.flow_path < 0).all()
    on = {one.flow: one.path for one in plan(view).flows}
    known = build(plan_time.with_paths(view, on, "job00005"))
    assert (known.flow_path < 0).sum() == 4
    assert (known.flow_path[known.flow_job == 5] < 0).all()
    before = build(plan_time.without(view, "job00005"))
    assert before.job_ids == known.job_ids[:-1]
    assert before.flow_count == 20


def test_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_time, "SIZES", (plan_time.Size(8, 16, 3, 2, 60.0),))
    found = plan_time.run(argparse.Namespace(seed=0), Context(2, None))
    assert [row["what"] for row in found.rows] == [
        "no path is known",
        "all paths are known",
        "one job arrives",
    ]
    assert len(found.goals) == 3
    assert record.decode(record.encode(found)).rows == found.rows
