"""The scheduler as the gossip calls it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from hostcc.config.sections.plan import PlanConfig
from hostcc.daemon.planning.planner import KEPT_PLANS, Planner
from hostcc.errors import HostccError
from hostcc.model import Plan
from hostcc.schedule import compression, methods
from hostcc.schedule.plan import Solution, solve_for_agents
from tests.daemon.planning.made import made
from tests.refusals import is_one_line
from tests.schedule.test_plan import many
from tests.schedule.views import job, one_link

pytestmark = pytest.mark.unit

VIEW = one_link([job("a", work=4.0, weight=3.0), job("b")], [2.0, 2.0])


def test_factors_leave_the_owners_weight_out() -> None:
    planner = Planner(PlanConfig())
    found = planner.made(planner(VIEW))
    assert found is not None
    assert dict(found.plan.jobs[0].parameters)["weight"] == 6.0
    assert found.factors == {"a": 2.0, "b": 0.5}


def test_jobs_without_a_path_are_known() -> None:
    assert made().blind == {"c"}
    assert made().alone == set()


def test_who_meets_nobody_is_known() -> None:
    planner = Planner(PlanConfig())
    found = planner.made(planner(one_link([job("a")], [2.0])))
    assert found is not None
    assert found.alone == {"a"}


def test_flows_that_stay_where_they_were_are_known() -> None:
    there = tuple(replace(flow, path="p0") for flow in VIEW.flows[:1])
    view = replace(VIEW, flows=(*there, *VIEW.flows[1:]))
    planner = Planner(PlanConfig())
    found = planner.made(planner(view))
    assert found is not None
    assert {one.flow for one in found.plan.flows} == {flow.id for flow in VIEW.flows}
    assert found.stays == {there[0].id}


def test_only_the_latest_are_kept() -> None:
    planner = Planner(PlanConfig())
    plans = [planner(replace(VIEW, digest=str(number))) for number in range(KEPT_PLANS + 1)]
    assert [planner.made(one) is not None for one in plans] == [False] + [True] * KEPT_PLANS
    assert planner.made(None) is None


def test_the_plan_before_leaves_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = []

    def watched(*args: Any) -> Solution:
        taken.append(args[2])
        return solve_for_agents(*args)

    monkeypatch.setattr("hostcc.daemon.planning.planner.solve_for_agents", watched)
    planner = Planner(PlanConfig())
    first, second = many(20, 60, 1), many(21, 60, 1)
    planner(first)
    assert planner(second) == Planner(PlanConfig())(second)
    assert [one is None for one in taken] == [True, False, True]


def test_a_view_that_is_the_same_for_this_host_is_not_planned_again() -> None:
    planner = Planner(PlanConfig())
    first, second = planner(VIEW), planner(replace(VIEW, digest="e"))
    assert (first.digest, second.digest) == ("d", "e")
    assert replace(second, digest="d") == first
    one, other = planner.made(first), planner.made(second)
    assert one is not None
    assert other is not None
    assert other.solution is one.solution


def test_disabled_plans_nothing() -> None:
    planner = Planner(PlanConfig(enabled=False))
    plan = planner(VIEW)
    assert plan == Plan("d", reason="plan.enabled is false")
    assert planner.made(plan) is None


def test_every_failure_is_one_line() -> None:
    cut = replace(VIEW, jobs=(replace(VIEW.jobs[0], work=float("nan")), VIEW.jobs[1]))
    with pytest.raises(HostccError) as error:
        Planner(PlanConfig())(cut)
    assert is_one_line(str(error.value))


@pytest.mark.parametrize(
    ("key", "known"),
    [
        ("paths", methods.ROUTES),
        ("order", methods.ORDERS),
        ("compression", compression.METHODS),
    ],
)
def test_every_method_can_be_configured(key: str, known: dict[str, object]) -> None:
    for name in known:
        config = msgspec.convert({key: name}, PlanConfig)
        assert Planner(config)(VIEW).digest == "d"
