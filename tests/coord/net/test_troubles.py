"""Members that do not reach each other, over real sockets, say why and what to do."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from hostcc.answers.gossip import Trouble
from hostcc.coord.keys import files
from hostcc.coord.keys.identity import HostKeys
from hostcc.coord.net.address import Address
from hostcc.coord.net.connect_attempt import ConnectAttempt, errno_text
from hostcc.coord.net.service import GossipService, ServiceSettings
from hostcc.coord.net.troubles import Reason
from hostcc.daemon.api.metrics import TROUBLES
from tests.coord.members import LOOPBACK, make_keys
from tests.coord.net.test_service import running
from tests.coord.services import QUICK, QUICK_TRANSPORT, agree, member, planner
from tests.patience import eventually

pytestmark = [pytest.mark.unit, pytest.mark.asyncio, pytest.mark.slow]


@pytest.fixture
def hosts(tmp_path: Path) -> dict[str, HostKeys]:
    return make_keys(tmp_path, "ab")


def said(logged: list[str], who: str, text: str) -> int:
    """How many lines of the log say that of somebody."""
    return sum(f"'who': '{who}'" in line and text in line for line in logged)


def knowing(name: str, keys: Path | None, *seeds: tuple[str, Address]) -> GossipService:
    settings = ServiceSettings(
        name, LOOPBACK, keys, seeds=seeds, gossip=QUICK, transport=QUICK_TRANSPORT
    )
    return GossipService(settings, planner, "test")


def troubles(service: GossipService) -> list[Trouble]:
    return list(service.status().troubles)


async def only(service: GossipService, reason: Reason, patience_s: float = 60.0) -> Trouble:
    """The only trouble, once there is one."""
    await eventually(lambda: [one.reason for one in troubles(service)] == [reason], patience_s)
    return troubles(service)[0]


async def still(service: GossipService, count: int = 20) -> None:
    """Several more rounds."""
    ticked, rounds = service.coordinator.ticked, 0
    while rounds < count:
        await eventually(lambda: service.coordinator.ticked > ticked)  # noqa: B023
        ticked, rounds = service.coordinator.ticked, rounds + 1


@asynccontextmanager
async def speaks_http() -> AsyncIterator[Address]:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    try:
        yield Address("127.0.0.1", server.sockets[0].getsockname()[1])
    finally:
        server.close()


async def test_nobody_listens_where_a_seed_should(
    tmp_path: Path, hosts: dict[str, HostKeys], logged: list[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        at = Address("127.0.0.1", server.getsockname()[1])
    alone = knowing("a", tmp_path / "a", ("b", at))
    async with running(alone):
        found = await only(alone, Reason.UNREACHABLE)
        assert (found.who, found.text) == (f"seed b@{at}", "no answer (connection refused)")
        await still(alone)
        assert said(logged, f"seed b@{at}", "no answer (connection refused)") == 1
        assert alone.status().members == {}
        # It comes, and all is well.
        other = GossipService(
            ServiceSettings("b", at, tmp_path / "b", gossip=QUICK, transport=QUICK_TRANSPORT),
            planner,
            "test",
        )
        async with running(other):
            await eventually(lambda: agree([alone, other]))
            await eventually(lambda: troubles(alone) == [])
            assert said(logged, f"seed b@{at}", "no longer so") == 1


async def test_a_seed_whose_name_has_no_address(
    tmp_path: Path, hosts: dict[str, HostKeys], logged: list[str]
) -> None:
    alone = knowing("a", tmp_path / "a", ("b", Address("b.invalid", 7471)))
    async with running(alone):
        found = await only(alone, Reason.UNRESOLVED, 120.0)  # name servers may not answer at all
        assert found.who == "seed b@b.invalid:7471"
        assert found.text.startswith("its name has no address (")
        await still(alone)
        assert said(logged, found.who, found.text) == 1


async def test_a_seed_that_is_not_on_the_list(
    tmp_path: Path, hosts: dict[str, HostKeys], logged: list[str]
) -> None:
    files.revoke(tmp_path / "a", "b")
    alone = knowing("a", tmp_path / "a", ("b", Address("127.0.0.1", 9)))
    async with running(alone):
        found = await only(alone, Reason.NOT_ALLOWED)
        assert found.text.startswith("its key is not on this host's allow-list")
        assert found.text.endswith("run `hostcc keys allow` here")
        await still(alone)
        assert said(logged, "seed b@127.0.0.1:9", "its key") == 1


async def test_a_key_that_the_other_does_not_have_on_its_list(
    tmp_path: Path, hosts: dict[str, HostKeys], logged: list[str]
) -> None:
    key = hosts["a"].keys[0].public.fingerprint
    files.revoke(tmp_path / "b", "a")
    other = member("b", tmp_path / "b")
    async with running(other):
        alone = knowing("a", tmp_path / "a", ("b", other.transport.address))
        async with running(alone):
            found = await only(alone, Reason.NOT_ACCEPTED)
            where = f"seed b@{other.transport.address}"
            text = f"it does not accept this host's key {key}: run `hostcc keys allow` there"
            assert (found.who, found.text) == (where, text)
            refused = await only(other, Reason.REFUSED)
            assert refused.who == "127.0.0.1"
            assert refused.text.startswith(f"its key {key} is not on this host's allow-list")
            assert alone.status().key == key
            before = other.transport.counters["refused"]
            await eventually(lambda: other.transport.counters["refused"] > before + 3)
            assert said(logged, where, text) == 1
            assert said(logged, "127.0.0.1", f"its key {key}") == 1
            # Allowed there, everything is well.
            files.allow(tmp_path / "b", hosts["a"].member)
            await eventually(lambda: agree([alone, other]))
            await eventually(lambda: troubles(alone) == troubles(other) == [])


async def test_a_member_that_was_learned_of_and_does_not_accept_the_key(tmp_path: Path) -> None:
    made = make_keys(tmp_path, "abc")
    files.revoke(tmp_path / "c", "a")
    middle = member("b", tmp_path / "b")
    async with running(middle):
        services = [member(name, tmp_path / name, middle) for name in "ac"]
        async with running(*services):
            found = await only(services[0], Reason.NOT_ACCEPTED)
            assert found.who == f"member c@{services[1].transport.address}"
            key = made["a"].keys[0].public.fingerprint
            refused = await only(services[1], Reason.REFUSED)
            assert key in found.text
            assert key in refused.text


async def test_a_seed_with_another_key_than_expected(
    tmp_path: Path, hosts: dict[str, HostKeys]
) -> None:
    expected = hosts["b"].keys[0].public.fingerprint
    make_keys(tmp_path / "other", "ab")
    other = member("b", tmp_path / "other" / "b")
    async with running(other):
        alone = knowing("a", tmp_path / "a", ("b", other.transport.address))
        async with running(alone):
            found = await only(alone, Reason.HANDSHAKE)
            assert f"another one than {expected} on this host's allow-list" in found.text


@pytest.mark.parametrize("keyed", ["a", "b"])
async def test_one_has_keys_and_the_other_none(
    tmp_path: Path, hosts: dict[str, HostKeys], keyed: str
) -> None:
    folders = {name: tmp_path / name if name == keyed else None for name in "ab"}
    other = member("b", folders["b"])
    async with running(other):
        alone = knowing("a", folders["a"], ("b", other.transport.address))
        async with running(alone):
            found = await only(alone, Reason.HANDSHAKE)
            words = "it has keys and this host has none" if keyed == "b" else "it has no keys"
            assert words in found.text


async def test_something_else_listens_there(tmp_path: Path, hosts: dict[str, HostKeys]) -> None:
    async with speaks_http() as at:
        alone = knowing("a", tmp_path / "a", ("b", at))
        async with running(alone):
            found = await only(alone, Reason.HANDSHAKE)
            assert found.text == "it takes connections, and does not speak as a member does"


async def test_deaths_and_returns_are_logged_once(
    tmp_path: Path, hosts: dict[str, HostKeys], logged: list[str]
) -> None:
    first = member("a", tmp_path / "a")
    async with running(first):
        second = member("b", tmp_path / "b", first)
        async with running(second):
            await eventually(lambda: agree([first, second]))
        await eventually(lambda: first.status().members == {"dead": 1})
        await still(first)
        assert said(logged, "b", "dead: it has not answered for too long") == 1
        assert said(logged, "b", "alive again") == 0
        again = member("b", tmp_path / "b", first)
        async with running(again):
            await eventually(lambda: agree([first, again]))
            await still(first)
            assert said(logged, "b", "alive again") == 1


async def test_knocking_says_why() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        at = Address("127.0.0.1", server.getsockname()[1])
        opened = ConnectAttempt(at, 0.0)
        await eventually(lambda: opened.outcome(0.0) == 0)
    refused = ConnectAttempt(at, 0.0)
    await eventually(lambda: refused.outcome(0.0) == errno.ECONNREFUSED)
    assert errno_text(errno.ECONNREFUSED) == "connection refused"


async def test_every_reason_has_a_metric() -> None:
    assert set(TROUBLES) == set(Reason)
