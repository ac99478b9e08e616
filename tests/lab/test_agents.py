"""Agents on the lab's hosts."""

from __future__ import annotations

from pathlib import Path

import pytest

from hostcc.client import ask
from hostcc.config.load import check
from hostcc.config.schema import Config
from hostcc.errors import HostccError
from hostcc.lab import agents, gossip_setup
from hostcc.lab.dumbbell import Dumbbell
from hostcc.lab.leafspine_lab import LeafSpineLab
from hostcc.lab.leafspine_scenario import LeafSpineFabric, PlacedJobSpec
from hostcc.lab.scenario import FabricSpec, JobSpec, Scenario
from hostcc.lab.scenario_hosts import hosts_of
from hostcc.system.validate import convert
from tests.real import until

HOSTS = hosts_of(Scenario(job=(JobSpec(name="a", comm_ms=1, hosts=4),)))


@pytest.mark.unit
def test_members_know_some_others_by_the_labs_addresses() -> None:
    section = gossip_setup.section(Dumbbell(FabricSpec(), HOSTS), HOSTS[1], HOSTS)
    config = convert({"gossip": section}, Config, "h2")
    assert list(check(config)) == []
    assert config.gossip.listen == "198.18.2.2:7471"
    assert config.gossip.seeds == tuple(f"h{n}@198.18.{n}.2:7471" for n in (1, 3, 4))
    assert config.gossip.insecure
    assert config.gossip.keys == ""


@pytest.mark.unit
def test_agents_are_scheduled_as_those_of_the_unit() -> None:
    unit = Path(__file__).parents[2] / "packaging" / "hostcc.service"
    assert f"Nice={agents.NICENESS}" in unit.read_text().splitlines()


@pytest.mark.unit
@pytest.mark.parametrize("declared", [True, False])
def test_the_hosts_share_of_the_work_is_declared_or_not(declared: bool) -> None:
    job = PlacedJobSpec(
        name="a", on=("h1", "h2"), hosts=2, comm_ms=1, flops=4e12, declare_flops=declared
    )
    network = LeafSpineLab(LeafSpineFabric())
    agent = agents.Agent(network.host(1), None, Path("/s"), Path("/l"))  # type: ignore[arg-type]
    words = agents.wrapper(agent, job, network)
    assert ("--flops" in words) == declared
    assert ("2e+12" in words) == declared


@pytest.mark.kernel
def test_agents_gossip_over_the_labs_network() -> None:
    def peers(agent: agents.Agent) -> dict[str, str]:
        try:
            answer = ask(agent.socket, "peers")
        except HostccError:  # it has not begun yet
            return {}
        return {one["name"]: one["state"] for one in answer["peers"]}

    def agreed(agent: agents.Agent) -> str:
        block = ask(agent.socket, "status")["gossip"]
        return str(block["active"]) if block and block["agreed"] else ""

    with Dumbbell(FabricSpec(), HOSTS) as fabric:
        running = agents.start(fabric, HOSTS[:2], {}, gossiping=True)
        try:
            one, two = running
            until(lambda: peers(one) == {"h2": "alive"}, one.log.read_text, 120)
            until(lambda: peers(two) == {"h1": "alive"}, two.log.read_text, 120)
            until(lambda: agreed(one) == agreed(two) != "", one.log.read_text, 120)
        finally:
            agents.stop(running)
        running = agents.start(fabric, HOSTS[:1], {})
        try:
            assert ask(running[0].socket, "status")["gossip"] is None
        finally:
            agents.stop(running)
