"""The cost of planning: the cluster that is generated, what an agent does of it, and the record."""

from __future__ import annotations

import argparse

import pytest

from benchmarks import plan_cost, plan_cost_world, record
from benchmarks.context import Context
from benchmarks.plan_cost_agent import Agent, Case, run
from hostcc.errors import InputError

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("placement", plan_cost_world.PLACEMENTS)
def test_jobs_come_and_go_and_leave_nothing(placement: str) -> None:
    world = plan_cost_world.World(32, 12, placement, 0)
    agent = Agent("host00000", 32)
    agent.receive(world.start())
    agent.look()
    assert len(agent.snapshot.view.jobs) == len(world.jobs) > 1
    for number in range(10):
        agent.receive(world.event(number))
        agent.look()
        assert {one.job for one in agent.snapshot.view.jobs} == {one.name for one in world.jobs}
        assert all(flow.path for flow in agent.snapshot.view.flows)
    while world.jobs:
        agent.receive(world.end(0))
    agent.look()
    left = agent.snapshot.view
    assert (left.jobs, left.flows, left.tables, left.links) == ((), (), (), ())


def test_an_agent_plans_as_often_as_its_views_are_followed() -> None:
    found = run(Case(32, 12, plan_cost_world.SCATTERED, 1.0, 10.0, 0))
    assert found.activations == 2
    assert found.plans in {1, 2}  # the second only if there is processor time for it
    assert found.own_jobs > 0
    assert min(found.views_share, found.plans_share, found.first_s, found.longest_s) > 0


def test_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_cost, "measured", run)
    args = argparse.Namespace(
        hosts=16, jobs=4, placement=("scattered",), events_per_s=1.0, seconds=5.0, seed=0
    )
    found = plan_cost.run(args, Context(2, None))
    assert [row["placement"] for row in found.rows] == ["scattered"]
    assert [goal.scope for goal in found.goals] == [
        "scattered: share of a processor",
        "scattered: resident bytes",
    ]
    assert record.decode(record.encode(found)).rows == found.rows
    with pytest.raises(InputError, match="--report"):
        plan_cost.run(args, Context(1, None, report_only=True))
