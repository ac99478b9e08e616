"""Every job of a plan can be explained, and what is said is what the plan does."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings

from hostcc.errors import NoJobError
from hostcc.model import ClusterView
from hostcc.schedule.explain import explain
from hostcc.schedule.parameters import weights
from hostcc.schedule.plan import Options, plan, solve
from hostcc.schedule.plan_writer import write_plan
from hostcc.sim.small import small_case
from tests.schedule.paths import problems
from tests.schedule.views import job, one_link

pytestmark = [pytest.mark.unit, pytest.mark.slow]


@given(problems.views())
@settings(max_examples=40, deadline=None)
def test_every_job_of_any_view(view: ClusterView) -> None:
    found = solve(view, Options(simulations=20))
    made = write_plan(view.digest, found)
    paths = {one.flow: one.path for one in made.flows}
    before = {flow.id: flow.path for flow in view.flows}
    for one in made.jobs:
        why = explain(found, one.job)
        assert (why.rank, why.level) == (one.rank, one.level)
        assert 0 <= why.speed <= 1 + 1e-9
        for text in (why.order, why.levels, why.parameters, why.shift, one.reason):
            assert text
            assert "\n" not in text
        for flow in why.flows:
            assert paths[flow.flow] == flow.path
            moved = flow.before not in ("", flow.path)
            assert moved == ("gain" in flow.reason and flow.reason.startswith("moves"))
            assert flow.before in ("", before[flow.flow])
        assert [other.rank for other in why.contenders] == sorted(
            other.rank for other in why.contenders
        )
        for other in why.contenders:
            assert other.before == (other.rank < why.rank)


def test_small_views_move_flows_only_for_a_gain() -> None:
    moves = 0
    for index in range(4):
        view = small_case(2, index)
        first = {one.flow: one.path for one in plan(view).flows}
        settled = dataclasses.replace(
            view,
            flows=tuple(dataclasses.replace(one, path=first[one.id]) for one in view.flows),
        )
        assert {one.flow: one.path for one in plan(settled).flows} == first
        poor = dataclasses.replace(
            view,
            flows=tuple(
                dataclasses.replace(one, path="agg0" if first[one.id] != "tor" else "tor")
                for one in view.flows
            ),
        )
        found = solve(poor)
        for moved in found.decision.moved:
            moves += len(moved.flows)
            assert float(moved.effect.removeprefix("predicted gain ").split("%")[0]) > 0
    assert moves


def test_unknown_jobs_are_refused() -> None:
    with pytest.raises(NoJobError, match="no job 'zz' among the 1 that are planned"):
        explain(solve(one_link([job("a")], [1.0])), "zz")


def test_fairness_and_weights_are_told() -> None:
    view = one_link([job("a", weight=3.0, slowdown=1.5), job("b")], [0.5, 0.5])
    why = explain(solve(view, Options(fairness=1.0)), "a")
    assert "owner's weight is 3" in why.order
    assert "1.50 times slower" in why.order
    assert why.parameters.startswith("weight 6: its owner's 3 times 2")


def test_assumed_work_is_told() -> None:
    view = one_link(
        [job("a"), dataclasses.replace(job("b"), assumed="equal for each host")], [0.5, 0.5]
    )
    found = solve(view)
    assert "W is assumed: equal for each host" in explain(found, "b").order
    assert "assumed" not in explain(found, "a").order


def test_weights_fall_with_the_level() -> None:
    competing = np.array([True, True, True, False])
    found = weights(np.array([0, 4, 7, 5]), np.array([1.0, 1.0, 2.0, 3.0]), competing)
    assert found.tolist() == [2.0, 1.0, 1.0, 3.0]
    assert weights(np.array([3]), np.array([0.0]), np.array([True])).tolist() == [0.01]


def test_a_method_that_starts_anew_says_so() -> None:
    view = problems.view([{"flows": [(0, 1, 0.5, "s1")]}, {"flows": [(0, 1, 0.4, "s1")]}])
    found = solve(view, Options(paths="crux"))
    reasons = [flow.reason for name in ("j0", "j1") for flow in explain(found, name).flows]
    assert "moves: the method 'crux' chooses every path anew" in reasons
    assert "stays: no move gains enough" in reasons
