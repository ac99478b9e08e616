"""Nobody gets in without a listed key, and nobody who has one gets far with bad manners."""

from __future__ import annotations

import asyncio
import logging
import resource
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hostcc.coord.keys import identity
from hostcc.coord.keys.identity import HostKeys
from hostcc.coord.net.transport_settings import TransportSettings
from tests.coord.hostile import Attacker, Tap, ends, raw
from tests.coord.members import End, make_keys
from tests.patience import eventually

pytestmark = [pytest.mark.unit, pytest.mark.asyncio, pytest.mark.slow]

STRICT = TransportSettings(handshake_s=0.5)
GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x00CURVE" + bytes(15) + b"\x00" + bytes(31)


@pytest.fixture
def hosts(tmp_path: Path) -> dict[str, HostKeys]:
    return make_keys(tmp_path, ["good", "bad", "server"])


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Iterator[list[str]]:
    """What the log says of offenders, and to whom."""
    logger = logging.getLogger("hostcc")
    before, logger.propagate = logger.propagate, True
    caplog.set_level(logging.WARNING, logger="hostcc")
    found: list[str] = []

    class Keeper(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            fields = getattr(record, "fields", {})
            found.append(f"{fields.get('peer')}: {fields.get('reason')}")

    keeper = Keeper()
    logger.addHandler(keeper)
    yield found
    logger.removeHandler(keeper)
    logger.propagate = before


def refused(end: End) -> int:
    return end.transport.counters["refused"]


async def still_fine(tmp_path: Path, server: End) -> None:
    """A good member gets in and is heard."""
    async with End("good", tmp_path / "good") as good:
        await good.said(server, b"still fine")


@pytest.mark.parametrize("case", ["no key", "a key not on the list", "a wrong server key"])
async def test_without_the_right_keys_nothing_gets_in(
    case: str, tmp_path: Path, hosts: dict[str, HostKeys], lines: list[str]
) -> None:
    stranger = identity.generate(time.time())
    server_key = hosts["server"].keys[0].public
    server, own = {
        "no key": (None, None),
        "a key not on the list": (server_key, stranger),
        "a wrong server key": (stranger.public, hosts["bad"].keys[0]),
    }[case]
    async with End("server", tmp_path / "server") as end:
        for _ in range(5):
            before = refused(end)
            with Attacker(end.transport.address, server, own) as attacker:
                attacker.send(b"let me in")
                await eventually(lambda before=before: refused(end) > before)  # type: ignore[misc]
        await still_fine(tmp_path, end)
        assert end.got == [("good", b"still fine")] * len(end.got)
        if own is stranger:
            curve = stranger.public.curve
            assert end.transport.refused_keys(time.monotonic()) == [("127.0.0.1", curve)]
            return
        # ZeroMQ may have closed a connection before its address could be read.
        said = dict(line.split(": ", 1) for line in lines)
        assert said
        assert len(said) == len(lines)  # one line an address, however many attempts
        assert said.keys() <= {"address 127.0.0.1", "address unknown"}
        for reason in said.values():
            assert reason.startswith(("no handshake", "it broke the handshake off"))


async def test_a_handshake_said_again_gets_nobody_in(
    tmp_path: Path, hosts: dict[str, HostKeys]
) -> None:
    async with End("server", tmp_path / "server", STRICT) as end:
        tap = Tap()
        async with tap.before(end.transport.address) as port, End("good", tmp_path / "good") as a:
            assert a.transport.send("server", port, b"once")
            await eventually(lambda: end.got == [("good", b"once")])
        said = bytes(tap.said)
        assert len(said) > 300
        await eventually(lambda: end.transport.connections() == (0, 0))
        cuts = [*range(0, 300, 37), len(said) - 1, len(said)]
        for cut in cuts:  # all of it, and pieces of it
            before = refused(end)
            with raw(end.transport.address, said[:cut]) as sock:
                await ends(sock, 10.0)
            await eventually(lambda before=before: refused(end) > before)  # type: ignore[misc]
        assert end.got == [("good", b"once")]
        await still_fine(tmp_path, end)


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x00" * 1000,
        GREETING + b"\x04\xff" + b"\x05HELLO" + b"x" * 250,
        GREETING + b"\x06\xff\xff\xff\xff\xff\xff\xff\xff\x05HELLO",
        b"\xff" * 5000,
    ],
    ids=["http", "zeros", "false hello", "huge length", "ones"],
)
async def test_garbage_is_hung_up_on(
    data: bytes, tmp_path: Path, hosts: dict[str, HostKeys]
) -> None:
    async with End("server", tmp_path / "server", STRICT) as end:
        with raw(end.transport.address, data) as sock:
            await ends(sock, 10.0)
        await eventually(lambda: refused(end) > 0)
        assert end.got == []


async def test_silence_is_hung_up_on(tmp_path: Path, hosts: dict[str, HostKeys]) -> None:
    async with End("server", tmp_path / "server", STRICT) as end:
        socks = [raw(end.transport.address) for _ in range(50)]
        await asyncio.gather(*(ends(sock, 10.0) for sock in socks))
        for sock in socks:
            sock.close()
        await still_fine(tmp_path, end)


async def test_more_than_a_message_holds_ends_the_connection(
    tmp_path: Path, hosts: dict[str, HostKeys]
) -> None:
    async with End("server", tmp_path / "server") as end:
        who = (hosts["server"].keys[0].public, hosts["bad"].keys[0])
        with Attacker(end.transport.address, *who) as attacker:
            attacker.send(b"x" * 65536)
            await eventually(lambda: len(end.got) == 1)
            attacker.send(b"x" * 10_000_000)

            def after() -> bool:
                attacker.send(b"after")
                return ("bad", b"after") in end.got

            # It may connect again and go on; what is too long never arrives.
            await eventually(after)
            attacker.send(b"x" * 65537)
            attacker.send(b"end")
            await asyncio.sleep(0.2)
        assert {len(data) for _, data in end.got} <= {65536, 5, 3}


async def test_a_flood_is_dropped_and_its_sender_shut_out(
    tmp_path: Path, hosts: dict[str, HostKeys], lines: list[str]
) -> None:
    settings = TransportSettings(messages_per_s=50, messages_burst=100)
    async with End("server", tmp_path / "server", settings) as end:
        who = (hosts["server"].keys[0].public, hosts["bad"].keys[0])
        with Attacker(end.transport.address, *who) as attacker:
            for _ in range(50_000):
                attacker.send(b"x")
            await eventually(lambda: end.transport.link("bad").shut_out)
            await eventually(lambda: end.transport.connections()[1] == 0)
        assert 100 <= len(end.got) < 1000
        assert end.transport.counters["dropped: too much"] >= 400
        heard = len(end.got)
        with Attacker(end.transport.address, *who) as attacker:  # its key does not help now
            attacker.send(b"again")
            await still_fine(tmp_path, end)
        assert [data for peer, data in end.got[heard:] if peer == "bad"] == []
        assert [line for line in lines if line.startswith("bad: ")] == [
            "bad: more than its rate limit"
        ]


async def test_a_flood_of_bytes_ends_its_connection(
    tmp_path: Path, hosts: dict[str, HostKeys]
) -> None:
    settings = TransportSettings(bytes_per_s=1e5, bytes_burst=1e6, flood_factor=2.0)
    async with End("server", tmp_path / "server", settings) as end:
        who = (hosts["server"].keys[0].public, hosts["bad"].keys[0])
        with Attacker(end.transport.address, *who) as attacker:
            for _ in range(300):
                attacker.send(b"x" * 65000)
            await eventually(lambda: end.transport.link("bad").shut_out)
        assert sum(len(data) for _, data in end.got) < 4e6
        await still_fine(tmp_path, end)


async def test_a_message_without_end_is_cut_off(tmp_path: Path, hosts: dict[str, HostKeys]) -> None:
    """ZeroMQ's marks count whole messages only: this one would grow for ever."""
    settings = TransportSettings(bytes_per_s=1e5, bytes_burst=1e6, flood_factor=2.0)
    async with End("server", tmp_path / "server", settings) as end:
        who = (hosts["server"].keys[0].public, hosts["bad"].keys[0])
        with Attacker(end.transport.address, *who) as attacker:
            attacker.send(b"hello")
            await eventually(lambda: end.got == [("bad", b"hello")])
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            attacker.send_multipart([b"x" * 60_000] * 1000)
            await eventually(lambda: end.transport.link("bad").shut_out)
            await eventually(lambda: end.transport.connections()[1] == 0)
        # The attacker's own queue of 60 MB lives in this process, too.
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 150_000
        assert end.got == [("bad", b"hello")]
        await still_fine(tmp_path, end)


async def test_messages_of_many_parts_are_not_taken(
    tmp_path: Path, hosts: dict[str, HostKeys]
) -> None:
    async with End("server", tmp_path / "server") as end:
        who = (hosts["server"].keys[0].public, hosts["bad"].keys[0])
        with Attacker(end.transport.address, *who) as attacker:
            attacker.send_multipart([b"x"] * 20_000)
            await eventually(lambda: end.transport.link("bad").shut_out)
        await still_fine(tmp_path, end)
        assert ("bad", b"x") not in end.got


async def test_nobody_chooses_the_way_that_answers_take(
    tmp_path: Path, hosts: dict[str, HostKeys]
) -> None:
    async with End("server", tmp_path / "server") as end:
        who = (hosts["server"].keys[0].public, hosts["bad"].keys[0])
        with Attacker(end.transport.address, *who, routing_id=b"good") as attacker:
            attacker.send(b"from good, honestly")
            await eventually(lambda: refused(end) > 0)
            assert end.got == []
            assert not end.transport.send("good", None, b"secret")
            assert attacker.poll(200) == 0


async def test_too_many_connections_close_the_door_for_a_while(
    tmp_path: Path, hosts: dict[str, HostKeys]
) -> None:
    settings = TransportSettings(handshake_s=1.0, max_accepted=30)
    async with (
        End("server", tmp_path / "server", settings) as end,
        End("good", tmp_path / "good") as good,
    ):
        await good.said(end, b"first")
        socks = [raw(end.transport.address) for _ in range(40)]
        await eventually(lambda: end.transport._router._listener.closed)
        good.send(end, b"the door does not matter to those inside")
        await eventually(lambda: ("good", b"the door does not matter to those inside") in end.got)
        await asyncio.gather(*(ends(sock, 15.0) for sock in socks))
        for sock in socks:
            sock.close()
        await eventually(lambda: not end.transport._router._listener.closed)
        with raw(end.transport.address) as sock:
            sock.setblocking(False)
            greeting = asyncio.get_running_loop().sock_recv(sock, 1)
            assert await asyncio.wait_for(greeting, 60.0), "closed at once"


async def test_one_address_cannot_take_all_places(
    tmp_path: Path, hosts: dict[str, HostKeys]
) -> None:
    settings = TransportSettings(max_strangers=20)
    async with End("server", tmp_path / "server", settings) as end:
        socks = [raw(end.transport.address) for _ in range(40)]
        await eventually(lambda: refused(end) > 0)
        await eventually(lambda: len(end.transport._router.connections) <= 20)
        for sock in socks:
            sock.close()
        await still_fine(tmp_path, end)


async def test_a_dialled_peer_has_no_more_rights(
    tmp_path: Path, hosts: dict[str, HostKeys]
) -> None:
    """Answers over a connection that we made are held to the same limits."""
    settings = TransportSettings(messages_per_s=50, messages_burst=100)
    async with (
        End("server", tmp_path / "server", settings) as end,
        End("bad", tmp_path / "bad") as bad,
    ):
        end.send(bad, b"hello")
        await eventually(lambda: bad.got == [("server", b"hello")])
        for _ in range(100_000):
            bad.transport.send("server", None, b"x")
            if end.transport.link("bad").shut_out:
                break
            await asyncio.sleep(0)
        assert end.transport.link("bad").shut_out
        assert not end.send(bad, b"more")
        assert len(end.transport._dealers) == 0


async def test_who_connects_again_and_again_is_shut_out(
    tmp_path: Path, hosts: dict[str, HostKeys]
) -> None:
    settings = TransportSettings(connects_burst=5.0, connects_per_s=0.01)
    async with End("server", tmp_path / "server", settings) as end:
        who = (hosts["server"].keys[0].public, hosts["bad"].keys[0])
        for number in range(100):
            with Attacker(end.transport.address, *who) as attacker:
                attacker.send(b"%d" % number)
                await eventually(
                    lambda number=number: (
                        ("bad", b"%d" % number) in end.got  # type: ignore[misc]
                        or end.transport.link("bad").shut_out
                    )
                )
            if end.transport.link("bad").shut_out:
                break
        assert 20 <= number <= 30
