"""Remembered components: the same plans, and no more memory than was said."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from hostcc.model import ClusterView
from hostcc.schedule import plan as planning
from hostcc.schedule.plan import Known, Options, Solution, solve_for_agents
from hostcc.sim.small import small_case

pytestmark = pytest.mark.unit

OPTIONS = Options(simulations=0)


def of(view: ClusterView, count: int) -> ClusterView:
    """The first jobs of a view."""
    here = sorted(job.job for job in view.jobs)[:count]
    return replace(
        view,
        jobs=tuple(job for job in view.jobs if job.job in here),
        flows=tuple(flow for flow in view.flows if flow.job in here),
        digest="",
    )


def same(one: Solution, other: Solution) -> bool:
    return (
        np.array_equal(one.decision.routing, other.decision.routing)
        and np.array_equal(one.decision.rank, other.decision.rank)
        and np.array_equal(one.level, other.level)
    )


def test_jobs_that_come_together_again_are_not_planned_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    view = small_case(1, 0)
    made: list[int] = []
    schedule = planning._schedule

    def counted(*args: Any, **more: Any) -> planning.Schedule:
        made.append(1)
        return schedule(*args, **more)

    monkeypatch.setattr(planning, "_schedule", counted)
    counts = (5, 2, 5, 3, 2, 5)
    known, before = Known(), None
    for count in counts:
        before = solve_for_agents(of(view, count), OPTIONS, before, known)
        assert same(before, solve_for_agents(of(view, count), OPTIONS))
    without = sum(len(solve_for_agents(of(view, count), OPTIONS).components) for count in counts)
    assert 0 < len(made) < 3 * without  # each was made for the two comparisons, and once here
    made.clear()
    solve_for_agents(of(view, 3), OPTIONS, before, known)
    assert not made


def test_the_one_used_least_lately_is_forgotten() -> None:
    parts = [
        part
        for case in range(3)
        for part in solve_for_agents(small_case(2, case), OPTIONS).components
    ]
    known = Known(2)
    for part in parts:
        assert known.add(part) is part
    assert known.get(parts[-1].problem) is parts[-1]
    assert known.get(parts[0].problem) is None


def test_the_same_jobs_with_other_numbers_are_not_known() -> None:
    (part, *_) = solve_for_agents(small_case(3, 0), OPTIONS).components
    known = Known()
    known.add(part)
    other = replace(part.problem, flow_bytes=part.problem.flow_bytes * 2)
    assert known.get(other) is None
