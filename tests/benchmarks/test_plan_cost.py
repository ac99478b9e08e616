"""The cost of planning: the cluster that is generated, what an agent does of it, and the record."""

from __future__ import annotations

import argparse
from pathlib import Path

import msgspec
import pytest

from benchmarks import plan_cost, plan_cost_crowd, plan_cost_whole, plan_cost_world, record
from benchmarks.context import Context
from benchmarks.plan_cost_agent import Agent, Case, run
from hostcc.config import load
from hostcc.coord.core import codec
from hostcc.coord.core.message import Message, Record, ViewReport
from hostcc.coord.keys.files import read_secret
from hostcc.coord.keys.keyring import Keyring

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


def test_a_whole_agent_publishes_what_the_cluster_has_of_its_host(tmp_path: Path) -> None:
    case = Case(16, 4, plan_cost_world.SCATTERED, 1.0, 10.0, 0)
    plan_cost_whole.write_inputs(tmp_path, case)
    config = load.read(tmp_path / "hostcc.toml", must_exist=True).config
    keys = Keyring(Path(config.gossip.keys))
    assert keys.name == "host00000"
    own = msgspec.msgpack.decode((tmp_path / "own").read_bytes(), type=list[Record])
    assert {record.writer for record in own} == {keys.name}
    assert "links" in {record.kind for record in own}
    theirs = read_secret(tmp_path / "crowd" / "host00009").keys[0].sign
    bare = Record("host00009", 1, 1, "links", "", b"", b"")
    there = plan_cost_crowd.signed(bare, {"host00009": theirs})
    assert keys.verify("host00009", codec.signed_bytes(there), there.signature)


def test_the_others_are_alive_and_hold_the_same() -> None:
    holding = ViewReport("held", "active", ask=True)
    found = [*plan_cost_crowd.answers(Message(1, pings=(7, 8), holding=holding, plan="p"))]
    assert found[0].acks == (7, 8)
    assert found[1].holding == ViewReport("held", "active")
    assert found[1].plan == "p"
    assert not [*plan_cost_crowd.answers(Message(1, leaves=b"12345678"))]


def test_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_cost, "measured", run)
    monkeypatch.setattr(
        plan_cost_whole, "measured", lambda _: plan_cost_whole.Use(0.01, 200_000_000)
    )
    args = argparse.Namespace(
        hosts=16, jobs=4, placement=("scattered",), events_per_s=1.0, seconds=5.0, seed=0,
        whole=True,
    )  # fmt: skip
    found = plan_cost.run(args, Context(2, None))
    assert [row["placement"] for row in found.rows] == ["scattered"]
    assert [goal.scope for goal in found.goals] == [
        "scattered: share of a processor",
        "scattered: resident bytes",
        "scattered: a whole agent's share",
        "scattered: a whole agent's resident bytes",
    ]
    assert [goal.met for goal in found.goals[2:]] == [True, False]
    assert record.decode(record.encode(found)).rows == found.rows
