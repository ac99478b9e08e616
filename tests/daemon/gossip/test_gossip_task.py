"""The part with the real service on loopback."""

from __future__ import annotations

import asyncio
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hostcc.answers.parts import Part
from hostcc.config.schema import Config
from hostcc.config.sections.gossip import GossipConfig
from hostcc.coord.core.payloads import PROFILE, Profile
from hostcc.daemon.gossip import profile_records
from hostcc.daemon.gossip.cluster import Cluster
from hostcc.daemon.gossip.gossip_task import Gossip
from hostcc.daemon.gossip.profile_store import ProfileStore
from hostcc.daemon.supervisor import Supervisor
from hostcc.errors import HostccError
from hostcc.model import JobProfile, Plan
from tests.coord.members import make_keys
from tests.daemon.gossip.sources import ToySource
from tests.daemon.profiling.hosts import OWN, ToyHost
from tests.patience import eventually

pytestmark = [pytest.mark.unit, pytest.mark.asyncio, pytest.mark.slow]

MEASURED = JobProfile("train", compute_s=0.2, comm_start_s=0.1, work=1e12, gpus=1.0, period_s=0.3)


def hasty_clock() -> float:
    """A change is confirmed within a tick."""
    return 60.0 * time.monotonic()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


class Site:
    """An agent's part and what it sees."""

    def __init__(self, folder: Path, name: str, *seeds: Site) -> None:
        folder.mkdir()
        self.port = free_port()
        self.name = name
        gossip = GossipConfig(
            enabled=True,
            name=name,
            listen=f"127.0.0.1:{self.port}",
            keys="",
            seeds=tuple(f"{seed.name}@127.0.0.1:{seed.port}" for seed in seeds),
        )
        self.host = ToyHost(folder, Config(agent=OWN, gossip=gossip))
        self.measured: list[JobProfile] = []
        self.cluster = Cluster()
        source = ToySource(lambda: self.measured)
        profiles = ProfileStore(source, self.cluster, hasty_clock, hasty_clock)
        self.planned: list[Plan | None] = []
        """The plan to follow, whenever one was ready."""
        self.part = Gossip(self.host, self.cluster, profiles, self.note_planned)
        self.part.every_s = 0.05
        self.parts = Supervisor([self.part])

    def note_planned(self) -> None:
        assert self.cluster.member is not None
        self.planned.append(self.cluster.member.service.coordinator.plan)

    def configure(self, **keys: object) -> None:
        gossip = msgspec.structs.replace(self.host.config.gossip, **keys)
        self.host.config = msgspec.structs.replace(self.host.config, gossip=gossip)

    @property
    def row(self) -> Part:
        return self.parts.status()[0][0]

    @property
    def gossip(self) -> dict[str, Any]:
        _, shown = self.parts.status()[0]
        return {} if shown is None else msgspec.structs.asdict(shown)

    def states(self) -> dict[str, str]:
        if not self.gossip:
            return {}
        return {peer.name: peer.state for peer in self.part.peers().peers}


@asynccontextmanager
async def running(*sites: Site) -> AsyncIterator[None]:
    for site in sites:
        site.parts.start()
    try:
        yield
    finally:
        for site in sites:
            await site.parts.stop()


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Site, Site]:
    one = Site(tmp_path / "a", "a")
    return one, Site(tmp_path / "b", "b", one)


def both(sites: tuple[Site, Site], true: Callable[[Site], bool]) -> Callable[[], bool]:
    return lambda: all(true(site) for site in sites)


async def test_two_agents_share_profiles_and_agree(pair: tuple[Site, Site]) -> None:
    one, other = pair
    one.measured = [MEASURED]
    other.measured = [replace(MEASURED, work=3e12)]
    async with running(one, other):
        await eventually(
            lambda: one.states() == {"b": "alive"} and other.states() == {"a": "alive"}
        )
        await eventually(
            both(pair, lambda site: site.cluster.published(PROFILE, "train") is not None)
        )
        await eventually(
            both(pair, lambda site: site.gossip["agreed"] and not site.gossip["missing"])
        )
        await eventually(lambda: one.gossip["active"] == other.gossip["active"] != "")
        member = one.cluster.member
        assert member is not None
        await eventually(lambda: member.service.coordinator.plan is not None)
        # It was followed when it was ready, and not only in the next round.
        assert None not in one.planned != []
        # A plan that was made before the other's profile came has this one's alone.
        await eventually(
            lambda: (
                [job.work for job in member.service.coordinator.snapshot.view.jobs]
                == [pytest.approx(4e12, rel=0.1)]
            )
        )
        assert one.gossip["insecure"] is True
        assert one.part.verify() == []
        other.measured = []
        await eventually(lambda: member.service.node.store.get("b", (PROFILE, "train")).withdrawn)  # type: ignore[union-attr]


async def test_the_same_measurement_is_worked_out_again_when_addresses_are_others(
    pair: tuple[Site, Site], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = pair
    one.measured = [replace(MEASURED, bytes_to=(("127.0.0.1", 1e6),))]
    made: list[Profile] = []
    content = profile_records.content

    def counted(*words: Any) -> Profile:
        made.append(content(*words))
        return made[-1]

    monkeypatch.setattr(profile_records, "content", counted)
    async with running(one):
        await eventually(lambda: bool(made) and [to for to, _ in made[-1].to] == ["a"])
        before = len(made)
        await asyncio.sleep(10 * one.part.every_s)
        assert len(made) == before
        async with running(other):  # now the address is of two
            await eventually(lambda: [to for to, _ in made[-1].to] == ["127.0.0.1"])


async def test_the_configuration_may_change_while_it_runs(pair: tuple[Site, Site]) -> None:
    one, _ = pair
    async with running(one):
        await eventually(lambda: one.gossip != {})
        one.configure(name="c")
        await eventually(lambda: one.gossip.get("name") == "c")
        one.configure(enabled=False)
        await eventually(lambda: one.row.state == "off")
        assert one.row.reason == "gossip.enabled is false"
        with pytest.raises(HostccError, match=r"no gossip: gossip\.enabled is false"):
            one.part.peers()


async def test_an_address_that_is_taken_is_a_failure_of_the_part_alone(
    pair: tuple[Site, Site],
) -> None:
    one, other = pair
    other.configure(listen=one.host.config.gossip.listen)
    async with running(one):
        await eventually(lambda: one.gossip != {})
        async with running(other):
            await eventually(lambda: other.row.state == "failed")
            assert str(one.port) in (other.row.reason or "")
            assert one.row.state == "running"
            with pytest.raises(HostccError, match="it is not running"):
                other.part.peers()


async def test_strangers_need_keys(pair: tuple[Site, Site]) -> None:
    one, _ = pair
    one.configure(listen=f"0.0.0.0:{one.port}")
    async with running(one):
        await eventually(lambda: one.row.state == "failed")
        assert "expected a loopback address without keys" in (one.row.reason or "")


async def test_a_profile_that_nobody_would_take_is_named(pair: tuple[Site, Site]) -> None:
    one, _ = pair
    one.measured = [replace(MEASURED, work=1e30)]
    async with running(one):
        await eventually(lambda: "train" in one.gossip.get("unpublished", {}))
        assert one.gossip["unpublished"]["train"].startswith("profile train: work: expected")
        one.measured = [MEASURED]
        await eventually(lambda: one.gossip["unpublished"] == {})
        one.measured = [replace(MEASURED, work=1e30)]
        await eventually(lambda: one.gossip["unpublished"] != {})
        one.measured = [MEASURED]
        await eventually(lambda: one.gossip["unpublished"] == {})


async def test_keys_that_appear_are_used(pair: tuple[Site, Site], tmp_path: Path) -> None:
    one, other = pair
    for site in pair:
        site.configure(keys=str(tmp_path / "keys" / site.name))
    async with running(one, other):
        await eventually(both(pair, lambda site: site.gossip.get("insecure") is True))
        make_keys(tmp_path / "keys", ["a", "b"])
        await eventually(both(pair, lambda site: site.gossip.get("insecure") is False))
        await eventually(
            lambda: one.states() == {"b": "alive"} and other.states() == {"a": "alive"}
        )
        assert one.gossip["key"] != other.gossip["key"] != ""


async def test_nothing_is_loaded_before_it_is_enabled() -> None:
    code = (
        "import hostcc.daemon.agent, sys; sys.exit('zmq' in sys.modules or 'nacl' in sys.modules)"
    )
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code)
    assert await process.wait() == 0
