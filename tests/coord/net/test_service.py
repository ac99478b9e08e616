"""Members that gossip over real sockets on loopback."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from hostcc.coord.core import codec, payloads
from hostcc.coord.core.message import COUNTER_MAX, PROTOCOL, Message, Outgoing, Record
from hostcc.coord.core.payloads import Links, Profile
from hostcc.coord.keys import files, identity
from hostcc.coord.keys.identity import SecretKey
from hostcc.coord.net.address import Address
from hostcc.coord.net.seeds import Seeds, advertised
from hostcc.coord.net.service import GossipService
from hostcc.coord.net.transport import Transport
from tests.coord.hostile import Attacker
from tests.coord.members import make_keys
from tests.coord.services import agree, member
from tests.patience import eventually

pytestmark = [pytest.mark.unit, pytest.mark.asyncio, pytest.mark.slow]

PROFILE = Profile(compute_s=0.1, comm_start_s=0.05, work=1e12, gpus=1.0, period_s=0.2)


@asynccontextmanager
async def running(*services: GossipService) -> AsyncIterator[None]:
    async with AsyncExitStack() as stack:
        for service in services:
            await service.start()
            stack.push_async_callback(service.stop)
        yield


@asynccontextmanager
async def cluster(top: Path, count: int) -> AsyncIterator[list[GossipService]]:
    """Members n0, n1 ... who all know n0; `hostile` has keys and is not started."""
    names = [f"n{number}" for number in range(count)]
    make_keys(top, [*names, "hostile"])
    async with AsyncExitStack() as stack:
        services: list[GossipService] = []
        for name in names:
            service = member(name, top / name, *services[:1])
            await service.start()
            stack.push_async_callback(service.stop)
            services.append(service)
        yield services


async def test_members_find_each_other_and_agree(tmp_path: Path) -> None:
    async with cluster(tmp_path, 5) as services:
        for service in services:
            service.node.publish(payloads.PROFILE, "job", PROFILE)
        await eventually(lambda: all(len(s.node.members.others) == 4 for s in services))
        await eventually(lambda: agree(services))
        await eventually(lambda: all(p.rtt_s is not None for p in services[0].peers()))
        (peer,) = [peer for peer in services[0].peers() if peer.name == "n1"]
        assert (peer.state, peer.version, peer.shut_out) == ("alive", "1.0", False)
        assert peer.address == str(services[1].transport.address)
        assert peer.heard_s is not None
        await eventually(lambda: services[0].clock_offset("n1") is not None)
        offset = services[0].clock_offset("n1")  # both read the clock of this machine
        assert offset is not None
        assert abs(offset.seconds) <= offset.error_s
        assert services[0].clock_offset("n9") is None
        assert not services[0].status().insecure
        # One goes, and is noticed; it comes back, and is welcome.
        await services[4].stop()
        left = services[:4]
        await eventually(lambda: all(s.status().members == {"alive": 3, "dead": 1} for s in left))
        again = member("n4", tmp_path / "n4", services[0])
        async with running(again):
            await eventually(lambda: agree([*left, again]))


async def test_messages_before_the_first_round_are_left(tmp_path: Path, logged: list[str]) -> None:
    make_keys(tmp_path, ["n0", "n1"])
    service = member("n0", tmp_path / "n0")
    receive = service._received
    receive("n1", codec.encode(Message(PROTOCOL, pings=(1,))))  # it only listens as yet
    async with running(service):
        receive("n1", codec.encode(Message(PROTOCOL, pings=(1,))))
        assert not [line for line in logged if "AttributeError" in line]


async def test_a_defect_in_a_round_does_not_end_the_rounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, logged: list[str]
) -> None:
    async with cluster(tmp_path, 2) as (first, second):
        await eventually(lambda: bool(first.node.members.others))
        tick = first.node.tick

        def broken(now: float) -> list[Outgoing]:
            monkeypatch.setattr(first.node, "tick", tick)
            raise ZeroDivisionError(f"at {now}")

        monkeypatch.setattr(first.node, "tick", broken)
        await eventually(lambda: any(line.startswith("gossip round") for line in logged))
        first.node.publish(payloads.PROFILE, "job", PROFILE)
        await eventually(lambda: second.node.store.get("n0", (payloads.PROFILE, "job")) is not None)


async def test_a_defect_in_when_the_next_round_is_does_not_end_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, logged: list[str]
) -> None:
    async with cluster(tmp_path, 1) as (only,):
        rests = only.coordinator.rest_s

        def broken() -> float:
            monkeypatch.setattr(only.coordinator, "rest_s", rests)
            raise ZeroDivisionError

        monkeypatch.setattr(only.coordinator, "rest_s", broken)
        await eventually(lambda: any(line.startswith("gossip round") for line in logged))
        ticked = only.coordinator.ticked
        await eventually(lambda: only.coordinator.ticked > ticked)


async def test_a_new_key_signs_everything_anew(tmp_path: Path) -> None:
    async with cluster(tmp_path, 3) as services:
        services[0].node.publish(payloads.PROFILE, "job", PROFILE)
        slot = (payloads.PROFILE, "job")
        await eventually(lambda: all(s.node.store.get("n0", slot) for s in services))
        host = identity.rotated(files.read_secret(tmp_path / "n0"), time.time(), 3.0)
        for name in ("n1", "n2"):
            files.allow(tmp_path / name, host.member)
        files.write_host(tmp_path / "n0", host)
        new = host.keys[1].public

        def signed_anew(service: GossipService) -> bool:
            held = service.node.store.get("n0", slot)
            if held is None:
                return False
            data = codec.signed_bytes(held.record)
            return new.verifies(data, held.record.signature)

        await eventually(lambda: all(signed_anew(service) for service in services))
        await eventually(lambda: time.time() > host.keys[0].public.ends)  # type: ignore[operator]
        services[0].node.publish(payloads.LINKS, "", Links((("n0>s", 1e9),)))
        await eventually(lambda: all(s.node.store.get("n0", ("links", "")) for s in services))
        assert all(s.status().members == {"alive": 2} for s in services)


async def test_without_keys_on_loopback(tmp_path: Path) -> None:
    first = member("a", None)
    async with running(first):
        second = member("b", None, first)
        async with running(second):
            await eventually(lambda: agree([first, second]))
            assert first.status().insecure
            assert first.peers()[0].version == "1.0"


def signed(key: SecretKey, record: Record) -> Record:
    return msgspec.structs.replace(record, signature=key.sign(codec.signed_bytes(record)))


def hostile_messages(key: SecretKey) -> list[bytes]:
    """What a member with a valid key could think of."""
    profile = payloads.encode(PROFILE)
    own = Record("hostile", 1, 1, payloads.PROFILE, "job", profile, b"")
    others = signed(key, Record("n1", 9, 9, payloads.PROFILE, "job", profile, b""))
    withdrawn = signed(key, Record("n1", COUNTER_MAX, COUNTER_MAX, "member", "", b"", b""))
    future = Profile(compute_s=1e300, comm_start_s=0.0, work=1e300, gpus=1.0)
    far = signed(key, msgspec.structs.replace(own, payload=msgspec.msgpack.encode(future)))
    return [
        b"",
        b"\xc1",
        b"\x81" * 60_000,
        b"\x91" * 65_000,
        b"\xdd\xff\xff\xff\xff",
        b"\xc6\xff\xff\xff\xff" + b"x" * 100,
        b"\xdf\xff\xff\xff\xff\xa1v\x01",
        msgspec.msgpack.encode({"v": "one"}),
        msgspec.msgpack.encode({"v": PROTOCOL, "r": {"a": 1}}),
        msgspec.msgpack.encode({"v": PROTOCOL, "p": [-1]}),
        msgspec.msgpack.encode({"v": PROTOCOL, "p": [2**63]}),
        msgspec.msgpack.encode({"v": PROTOCOL + 2}),
        msgspec.msgpack.encode({"v": PROTOCOL, "d": b"123"}),
        *(
            codec.encode(Message(PROTOCOL, records=(record,)))
            for record in (own, others, withdrawn, far)
        ),
        codec.encode(Message(PROTOCOL, pings=tuple(range(16)), leaves=bytes(2048))),
        codec.encode(Message(PROTOCOL, entries=bytes(24 * 2048), buckets=bytes(256))),
        codec.encode(Message(PROTOCOL, wanted=b"\xff" * 8 * 2048)),
    ]


async def test_a_member_with_a_key_and_bad_intent(tmp_path: Path, logged: list[str]) -> None:
    async with cluster(tmp_path, 2) as services:
        services[1].node.publish(payloads.PROFILE, "job", PROFILE)
        slot = (payloads.PROFILE, "job")
        await eventually(lambda: services[0].node.store.get("n1", slot) is not None)
        before = services[0].node.store.get("n1", slot)
        key = files.read_secret(tmp_path / "hostile").keys[0]
        server = files.read_secret(tmp_path / "n0").keys[0].public
        target = services[0].transport
        assert isinstance(target, Transport)
        for data in hostile_messages(key):
            # Or only the first few would be looked at at all.
            services[0].node._offenders._records.clear()
            target.offenders._known.clear()
            refused = target.counters["received"] + target.counters["refused"]
            with Attacker(target.address, server, key) as attacker:
                attacker.send(data)
                await eventually(
                    lambda refused=refused: (
                        target.counters["received"]  # type: ignore[misc]
                        + target.counters["refused"]
                        > refused
                    )
                )
        assert services[0].node.store.get("n1", slot) == before
        assert services[0].node.store.incarnation("n1") == services[1].node.incarnation
        assert services[0].node.store.get("hostile", slot) is None
        assert services[0].status().members == {"alive": 1}
        assert next(iter(services[0].peers())).name == "n1"


async def test_an_offender_is_named_once_and_not_heard(tmp_path: Path, logged: list[str]) -> None:
    async with cluster(tmp_path, 1) as services:
        key = files.read_secret(tmp_path / "hostile").keys[0]
        server = files.read_secret(tmp_path / "n0").keys[0].public
        target = services[0].transport
        with Attacker(target.address, server, key) as attacker:
            for _ in range(200):
                attacker.send(b"\xc1")
            await eventually(lambda: target.counters["received"] >= 200)
        assert target.counters["refused"] == services[0].node.settings.strikes
        await eventually(lambda: any("'hostile'" in line for line in logged))
        rounds = services[0].settings.gossip.round_s
        await asyncio.sleep(3 * rounds)
        assert len([line for line in logged if "'hostile'" in line]) == 1


async def test_seeds_by_name_and_what_is_advertised() -> None:
    seeds = Seeds([("a", Address("localhost", 7)), ("b", Address("10.0.0.1", 7))])
    assert seeds.address("a") is None
    assert seeds.address("b") == Address("10.0.0.1", 7)
    await seeds._resolve("a", Address("localhost", 7))
    found = seeds.address("a")
    assert found is not None
    assert found.is_loopback
    await seeds._resolve("b", Address("no.such.host.invalid", 7))
    await seeds._resolve("b", Address("a" * 64 + ".example", 7))  # no name at all
    assert seeds.address("b") == Address("10.0.0.1", 7)
    anywhere = Address("0.0.0.0", 9)
    assert advertised(Address("192.0.2.1", 9), []) == "192.0.2.1:9"
    assert advertised(anywhere, []) == ""
    assert advertised(anywhere, [Address("127.0.0.1", 7)]) == "127.0.0.1:9"
