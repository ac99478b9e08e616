"""What parts see of the cluster, over real sockets on loopback."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hostcc.coord.core.payloads import (
    ADDRESSES,
    LINKS,
    PATHS,
    PROFILE,
    Addresses,
    Links,
    PathEntry,
    Paths,
    Profile,
)
from hostcc.coord.net.service import GossipService
from hostcc.daemon.gossip.cluster import Cluster
from tests.coord.members import make_keys
from tests.coord.services import member
from tests.patience import eventually

pytestmark = [pytest.mark.unit, pytest.mark.asyncio, pytest.mark.slow]


class Host:
    """A cluster as one host sees it; `service` may be another one later, or none."""

    def __init__(self, service: GossipService | None) -> None:
        self.cluster = Cluster()
        self.service = service

    @property
    def service(self) -> GossipService | None:
        return self._service

    @service.setter
    def service(self, service: GossipService | None) -> None:
        self._service = service
        member: Any = SimpleNamespace(service=service)
        self.cluster.member = member if service is not None else None


@asynccontextmanager
async def two(top: Path) -> AsyncIterator[tuple[Host, Host]]:
    make_keys(top, ["a", "b"])
    one = member("a", top / "a")
    await one.start()
    other = member("b", top / "b", one)
    await other.start()
    try:
        await eventually(
            lambda: one.node.members.others == ["b"] and other.node.members.others == ["a"]
        )
        yield Host(one), Host(other)
    finally:
        await other.stop()
        await one.stop()


def links(**values: float) -> Links:
    return Links(tuple(sorted(values.items())))


async def test_records_are_told_replaced_and_withdrawn(tmp_path: Path) -> None:
    async with two(tmp_path) as (one, other):
        store = other.service.node.store if other.service else None
        assert store is not None
        one.cluster.publish(PATHS, {"b": Paths((PathEntry("p", ("x",)),)), "c": Paths(())})
        one.cluster.publish(LINKS, {"": links(x=1e9)})
        await eventually(lambda: store.get("a", (LINKS, "")) is not None)
        await eventually(lambda: store.get("a", (PATHS, "c")) is not None)
        revision = store.revision
        one.cluster.publish(LINKS, {"": links(x=1e9)})
        assert one.cluster.published(LINKS, "") == links(x=1e9)
        one.cluster.publish(PATHS, {"b": Paths((PathEntry("p", ("x",)),))})
        await eventually(
            lambda: (held := store.get("a", (PATHS, "c"))) is not None and held.withdrawn
        )
        assert store.revision > revision


async def test_what_is_out_of_bounds_is_not_told_and_said_so(tmp_path: Path) -> None:
    async with two(tmp_path) as (one, _):
        one.cluster.publish(LINKS, {"": Links((("no name", 1.0),))})
        assert (
            set(one.cluster.refusals) == {(LINKS, "")}
            or one.cluster.published(LINKS, "") is not None
        )
        one.cluster.publish(LINKS, {"": Links((("x", 1.0), ("x", 2.0)))})
        assert "each once" in one.cluster.refusals[LINKS, ""]
        one.cluster.publish(LINKS, {"": links(x=1.0)})
        assert one.cluster.refusals == {}


async def test_addresses_belong_to_members_and_contested_ones_to_nobody(tmp_path: Path) -> None:
    async with two(tmp_path) as (one, other):
        assert other.service is not None
        other.cluster.publish(ADDRESSES, {"": Addresses(("10.0.0.2", "fd00::2", "::0:1"))})
        await eventually(lambda: one.cluster.owners().get("10.0.0.2") == "b")
        assert one.cluster.owners()["fd00::2"] == "b"
        assert "::0:1" not in one.cluster.owners()
        one.cluster.publish(ADDRESSES, {"": Addresses(("10.0.0.2",))})
        assert "10.0.0.2" not in one.cluster.owners()


async def test_notes_reach_whoever_listens_also_a_new_member(tmp_path: Path) -> None:
    heard: list[tuple[str, bytes]] = []
    async with two(tmp_path) as (one, other):
        other.cluster.listen("steer", lambda peer, data: heard.append((peer, data)))
        assert one.cluster.send("b", "steer", b"1")
        await eventually(lambda: heard == [("a", b"1")])
        other.service, one.service = one.service, other.service
        assert one.cluster.send("a", "steer", b"2")
        await eventually(lambda: heard[1:] == [("b", b"2")])


async def test_without_gossip_nothing_is_known_and_nothing_raises() -> None:
    nobody = Host(None).cluster
    nobody.publish(LINKS, {"": links(x=1.0)})
    nobody.listen("steer", lambda *_: None)
    nobody.flush()
    assert (nobody.name, nobody.owners(), nobody.published(LINKS, "")) == ("", {}, None)
    assert not nobody.send("b", "steer", b"")
    assert nobody.gone("b", 5.0)
    assert (nobody.moment, nobody.records()) == (None, {})


async def test_what_live_members_say_changes_with_them(tmp_path: Path) -> None:
    async with two(tmp_path) as (one, other):
        before = one.cluster.moment
        other.cluster.publish(LINKS, {"": links(x=1e9)})
        await eventually(lambda: (LINKS, "") in one.cluster.records()["b"])
        assert one.cluster.moment != before
        assert set(one.cluster.records()) == {"a", "b"}
        assert one.service is not None
        one.service.node.members._dead["b"] = object()  # type: ignore[assignment]
        assert set(one.cluster.records()) == {"a"}
        del one.service.node.members._dead["b"]


async def test_members_that_are_unknown_are_gone(tmp_path: Path) -> None:
    async with two(tmp_path) as (one, _):
        assert not one.cluster.gone("b", 5.0)
        assert one.cluster.gone("stranger", 5.0)


async def test_what_the_hosts_of_a_job_say_together(tmp_path: Path) -> None:
    async with two(tmp_path) as (one, other):
        assert other.service is not None
        assert one.cluster.job("j") is None
        other.service.node.publish(PROFILE, "j", Profile(0.1, 0.1, 1e12, 1.0, 0.25))
        await eventually(lambda: one.cluster.job("j") is not None)
        found = one.cluster.job("j")
        assert found is not None
        assert (found.period_s, found.confidence) == (0.25, 1.0)
        one.service = None
        assert one.cluster.job("j") is None
