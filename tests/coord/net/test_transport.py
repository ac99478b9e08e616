"""Messages between members over real sockets on loopback."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from hostcc.coord.keys import files, identity
from hostcc.coord.keys.keyring import Keyring
from hostcc.coord.net.address import Address
from hostcc.coord.net.transport import Transport
from hostcc.coord.net.transport_settings import TransportSettings
from hostcc.errors import HostccError
from tests.coord.members import LOOPBACK, End, make_keys
from tests.patience import eventually

pytestmark = [pytest.mark.unit, pytest.mark.asyncio, pytest.mark.slow]

QUICK = TransportSettings(retry_s=(0.05, 0.2), down_s=2.0, keepalive_s=1)


async def test_there_and_back_over_one_connection(tmp_path: Path) -> None:
    make_keys(tmp_path, "ab")
    async with End("a", tmp_path / "a") as a, End("b", tmp_path / "b") as b:
        assert a.send(b, b"hello")
        await eventually(lambda: b.got == [("a", b"hello")])
        assert b.transport.send("a", None, b"back")  # no address: only the way that a came
        await eventually(lambda: a.got == [("b", b"back")])
        assert a.transport.connections() == (1, 0)
        assert b.transport.connections() == (0, 1)
        assert a.transport.link("b").dialled == "up"
        assert b.transport.link("a").accepted
        await eventually(lambda: b.transport.link("a").rtt_s is not None)
        assert a.transport.counters["bytes sent"] == b.transport.counters["bytes received"] == 5


async def test_both_dial_and_both_hear(tmp_path: Path) -> None:
    make_keys(tmp_path, "ab")
    async with End("a", tmp_path / "a") as a, End("b", tmp_path / "b") as b:
        for number in range(50):
            assert a.send(b, b"a%d" % number) or number >= 16
            assert b.send(a, b"b%d" % number) or number >= 16
            await asyncio.sleep(0)
        await eventually(lambda: ("a", b"a0") in b.got and ("b", b"b0") in a.got)


async def test_of_two_connections_one_falls_into_disuse(tmp_path: Path) -> None:
    make_keys(tmp_path, "ab")
    short = TransportSettings(idle_s=0.4)
    async with End("a", tmp_path / "a", short) as a, End("b", tmp_path / "b", short) as b:
        assert a.send(b, b"x")
        assert b.send(a, b"y")
        ends = (a.transport, b.transport)
        await eventually(lambda: [end.connections() for end in ends] == [(1, 1), (1, 1)])

        def one_left() -> bool:
            a.send(b, b"x")
            b.send(a, b"y")
            return [end.connections() for end in ends] == [(1, 0), (0, 1)]

        await eventually(one_left)
        a.got.clear()
        b.got.clear()
        await b.said(a, b"still here")
        await a.said(b, b"still here")
        assert [end.connections() for end in ends] == [(1, 0), (0, 1)]


async def test_ipv6(tmp_path: Path) -> None:
    make_keys(tmp_path, "ab")
    everywhere = Address("::", 0)
    async with End("a", tmp_path / "a") as a, End("b", tmp_path / "b", None, everywhere) as b:
        port = b.transport.address.port
        for host in ("::1", "127.0.0.1"):
            b.got.clear()
            assert a.transport.send("b", Address(host, port), b"x")
            await eventually(lambda: b.got == [("a", b"x")])
            a.transport._dealers.drop("b")
            await eventually(lambda: b.transport.connections() == (0, 0))


async def test_nowhere_to_send(tmp_path: Path) -> None:
    make_keys(tmp_path, "a")
    async with End("a", tmp_path / "a") as a:
        assert not a.transport.send("a2", None, b"x")
        assert not a.transport.send("a2", LOOPBACK, b"x")
        assert not a.transport.send("a2", LOOPBACK, b"x" * 65537)
        assert a.transport.counters["dropped: no address"] == 1
        assert a.transport.counters["dropped: not allowed"] == 1
        assert a.transport.counters["dropped: too long"] == 1


async def test_a_peer_that_restarts_is_found_again(tmp_path: Path) -> None:
    make_keys(tmp_path, "ab")
    async with End("a", tmp_path / "a", QUICK) as a:
        async with End("b", tmp_path / "b") as b:
            await a.said(b, b"first")
            listen = b.transport.address
        await eventually(lambda: a.transport.link("b").dialled != "up")
        async with End("b", tmp_path / "b", None, listen) as b:
            await a.said(b, b"second")


async def test_few_connections_serve_many_peers(tmp_path: Path) -> None:
    names = [f"n{number}" for number in range(12)]
    make_keys(tmp_path, ["a", *names])
    settings = TransportSettings(max_dialled=4)
    async with End("a", tmp_path / "a", settings) as a, asyncio.TaskGroup() as group:
        ends = [End(name, tmp_path / name) for name in names]
        for end in ends:
            await end.transport.start()
        for end in ends[:4]:
            assert a.send(end, b"x")
        assert not a.send(ends[4], b"x")
        assert a.transport.counters["dropped: busy"] == 1
        for end in ends:
            await a.said(end, b"y")
            assert len(a.transport._dealers) <= 4
        for end in ends:
            group.create_task(end.transport.stop())


async def test_a_slow_peer_loses_messages_and_nothing_else(tmp_path: Path) -> None:
    make_keys(tmp_path, "ab")
    async with End("a", tmp_path / "a") as a:
        nowhere = Address("127.0.0.1", 9)
        sent = [a.transport.send("b", nowhere, b"x" * 1000) for _ in range(100)]
        assert sum(sent) <= 17
        assert a.transport.counters["dropped: queue full"] >= 83


async def test_a_key_off_the_list_has_no_rights_on_a_connection_that_stands(
    tmp_path: Path,
) -> None:
    make_keys(tmp_path, "ab")
    async with End("a", tmp_path / "a") as a, End("b", tmp_path / "b") as b:
        await a.said(b, b"first")
        files.revoke(tmp_path / "b", "a")
        await eventually(lambda: b.transport.keyring.member_of(_curve(a)) is None)  # type: ignore[union-attr]
        a.send(b, b"second")
        await eventually(lambda: b.transport.connections() == (0, 0))
        assert not b.transport.send("a", a.transport.address, b"x")
        await eventually(lambda: b.transport.counters["refused"] > 0)
        assert ("a", b"second") not in b.got
        host = files.read_secret(tmp_path / "a")
        files.allow(tmp_path / "b", host.member)
        await a.said(b, b"third")


async def test_keys_change_while_messages_flow(tmp_path: Path) -> None:
    """b uses its new key before a knows that it should, then the old one ends."""
    hosts = make_keys(tmp_path, "ab")
    async with End("a", tmp_path / "a", QUICK) as a, End("b", tmp_path / "b", QUICK) as b:
        await a.said(b, b"old")
        old = hosts["b"]
        rotated = identity.rotated(old, time.time(), 4.0)
        files.allow(tmp_path / "a", rotated.member)
        files.write_host(tmp_path / "b", rotated)
        sent = 0
        while _curve(b) == old.keys[0].public.curve:
            await a.said(b, b"%d" % sent)
            await b.said(a, b"%d" % sent)
            sent += 1
        await a.said(b, b"new")
        await b.said(a, b"new")
        await eventually(lambda: time.time() > rotated.keys[0].public.ends)  # type: ignore[operator]
        await a.said(b, b"old ended")
        await b.said(a, b"old ended")
        assert sent > 10


async def test_without_keys_only_loopback_unless_told(tmp_path: Path) -> None:
    outside = Address("0.0.0.0", 0)
    with pytest.raises(HostccError, match="expected a loopback address without keys"):
        Transport("a", outside, None, lambda *_: None)
    assert Transport("a", outside, None, lambda *_: None, insecure=True).insecure
    make_keys(tmp_path, "ab")
    with pytest.raises(HostccError, match="expected keys of b, got those of a"):
        Transport("b", LOOPBACK, Keyring(tmp_path / "a"), lambda *_: None)
    async with End("a", None) as a, End("b", None) as b:
        await a.said(b, b"hello")
        assert b.transport.send("a", None, b"back")
        await eventually(lambda: a.got == [("b", b"back")])


async def test_an_address_in_use_is_said(tmp_path: Path) -> None:
    async with End("a", None) as a:
        second = End("b", None, None, a.transport.address)
        with pytest.raises(HostccError, match=r"gossip: listen on 127.0.0.1:\d+: Address already"):
            await second.transport.start()
        await second.transport.stop()


def _curve(end: End) -> str:
    assert end.transport.keyring is not None
    return end.transport.keyring.current.public.curve
