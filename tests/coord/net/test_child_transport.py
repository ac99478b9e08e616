"""Members whose connections are in a process of their own, which is ended in every way there is."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import pytest

from hostcc.answers.gossip import ProcessStatus
from hostcc.coord.net import child_transport, pipe, sandbox
from hostcc.coord.net.address import Address
from hostcc.coord.net.child_transport import ChildTransport
from hostcc.coord.net.pipe import Pipe
from hostcc.coord.net.pipe_messages import ENCODER, REPORTS, PeerMessage
from hostcc.coord.net.service import GossipService, ServiceSettings
from hostcc.errors import HostccError
from tests.coord.members import LOOPBACK, make_keys
from tests.coord.services import QUICK, QUICK_TRANSPORT, agree, planner
from tests.patience import eventually

pytestmark = [pytest.mark.unit, pytest.mark.asyncio, pytest.mark.slow]


def member(name: str, keys: Path | None, *seeds: GossipService) -> GossipService:
    known = tuple((seed.settings.name, seed.transport.address) for seed in seeds)
    settings = ServiceSettings(
        name, LOOPBACK, keys, seeds=known, gossip=QUICK, transport=QUICK_TRANSPORT
    )
    return GossipService(settings, planner, "test", rng=Random(name), carry=ChildTransport)


@asynccontextmanager
async def pair(top: Path) -> AsyncIterator[list[GossipService]]:
    make_keys(top, "ab")
    one = member("a", top / "a")
    await one.start()
    try:
        other = member("b", top / "b", one)
        await other.start()
        try:
            await eventually(lambda: agree([one, other]))
            yield [one, other]
        finally:
            await other.stop()
    finally:
        await one.stop()


def process(service: GossipService) -> ProcessStatus:
    found = service.status().process
    assert found is not None
    return found


def pid(service: GossipService) -> int:
    found = process(service).pid
    assert found is not None
    return found


def gone(number: int) -> bool:
    return not Path(f"/proc/{number}").exists()


@pytest.mark.parametrize("number", [signal.SIGABRT, signal.SIGKILL, signal.SIGSEGV])
async def test_whatever_ends_the_process_another_one_follows(
    tmp_path: Path, number: signal.Signals
) -> None:
    async with pair(tmp_path) as both:
        one = both[0]
        before, address = pid(one), one.transport.address
        os.kill(before, number)
        await eventually(lambda: process(one).restarts == 1 and process(one).pid is not None)
        assert process(one).reason == f"was ended by {number.name}"
        assert pid(one) != before
        assert gone(before)
        assert one.transport.address == address
        await eventually(lambda: agree(both))
        assert one.status().counters["received"] > 0


async def test_while_it_is_away_nobody_is_reached_and_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with pair(tmp_path) as both:
        one = both[0]
        monkeypatch.setattr(child_transport, "command", lambda _: ["/nowhere/at/all"])
        os.kill(pid(one), signal.SIGKILL)
        await eventually(lambda: process(one).restarts > 0)
        await eventually(
            lambda: [trouble.who for trouble in one.status().troubles][:1] == ["gossip process"]
        )
        await eventually(lambda: "No such file" in one.status().troubles[0].text)
        assert "does not start" in (process(one).reason or "")
        assert [peer.link for peer in one.peers()] == ["none"]
        assert one.status().dialled == one.status().accepted == 0
        assert not one.transport.send("b", None, b"x")
        await eventually(lambda: one.peers()[0].state in ("suspect", "dead"))
        monkeypatch.undo()
        await eventually(lambda: agree(both))
        await eventually(lambda: one.status().troubles == ())


async def test_one_that_hangs_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_transport, "HANG_TIMEOUT_S", 3.0)
    async with pair(tmp_path) as both:
        one = both[0]
        before = pid(one)
        os.kill(before, signal.SIGSTOP)
        await eventually(lambda: process(one).restarts == 1 and process(one).pid is not None)
        assert process(one).reason == "said nothing for 3 s"
        assert gone(before)
        await eventually(lambda: agree(both))


async def test_it_holds_nothing_but_what_it_needs(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("x")
    with secret.open() as held:
        os.set_inheritable(held.fileno(), True)
        async with pair(tmp_path / "keys") as both:
            number = pid(both[0])
            assert str(secret) not in descriptors(number)
            assert sandbox.permitted(number) & ~sandbox.KEPT == 0
            assert "NoNewPrivs:\t1" in status(number)


def descriptors(number: int) -> list[str]:
    return [str(one.readlink()) for one in Path(f"/proc/{number}/fd").iterdir()]


def status(number: int) -> str:
    return Path(f"/proc/{number}/status").read_text()


async def test_what_cannot_begin_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        at = Address("127.0.0.1", taken.getsockname()[1])
        with pytest.raises(HostccError, match=r"gossip: listen on 127.0.0.1:\d+: Address already"):
            await ChildTransport("a", at, None, lambda *_: None).start()
    transport = ChildTransport("a", LOOPBACK, None, lambda *_: None)
    monkeypatch.setattr(child_transport, "command", lambda _: ["/nowhere/at/all"])
    with pytest.raises(HostccError, match=r"gossip: its process does not start: .*No such file"):
        await transport.start()
    monkeypatch.setattr(
        child_transport, "command", lambda _: [sys.executable, "-c", "import os; os.abort()"]
    )
    with pytest.raises(HostccError, match="gossip: its process was ended by SIGABRT"):
        await transport.start()
    await transport.stop()


AGENT = """
import asyncio, sys
from hostcc.coord.net.address import Address
from hostcc.coord.net.child_transport import ChildTransport
async def main():
    transport = ChildTransport("a", Address("127.0.0.1", 0), None, lambda *_: None)
    await transport.start()
    print(transport.process.pid, flush=True)
    await asyncio.sleep(600)
asyncio.run(main())
"""


@pytest.mark.parametrize("stopped", [False, True])
async def test_it_ends_with_the_agent(stopped: bool) -> None:
    with subprocess.Popen(  # noqa: ASYNC220
        [sys.executable, "-c", AGENT], stdout=subprocess.PIPE, text=True
    ) as agent:
        assert agent.stdout is not None
        number = int(await asyncio.to_thread(agent.stdout.readline))
        if stopped:  # then it cannot see that the pipe has ended
            os.kill(number, signal.SIGSTOP)
        for polite in (signal.SIGTERM, signal.SIGINT):
            os.kill(number, polite)
        agent.kill()
        await eventually(lambda: exit_text(number))


def exit_text(number: int) -> bool:
    """Gone, or for somebody to reap."""
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@asynccontextmanager
async def piped(
    take: Callable[[bytes], None], lost: Callable[[str], None]
) -> AsyncIterator[tuple[Pipe, socket.socket]]:
    """A pipe, and its bare other end."""
    ours, theirs = socket.socketpair()
    made = Pipe(take, lost)
    with theirs:
        await asyncio.get_running_loop().create_unix_connection(lambda: made, sock=ours)
        yield made, theirs
        made.close()


async def test_messages_in_pieces_and_many_at_once() -> None:
    got: list[bytes] = []
    async with piped(got.append, lambda _: None) as (_, other):
        data = b"".join(struct.pack("=I", 3) + b"%03d" % number for number in range(500))
        for at in range(0, len(data), 997):
            other.sendall(data[at : at + 997])
            await asyncio.sleep(0)
        await eventually(lambda: len(got) == 500)
        assert got[-1] == b"499"


@pytest.mark.parametrize(
    "said",
    [
        struct.pack("=I", pipe.MAX_FRAME + 1),
        struct.pack("=I", 4) + b"oops",
        struct.pack("=I", 3) + ENCODER.encode([9]) + b"xx",
        *(
            struct.pack("=I", len(frame)) + frame
            for frame in (
                ENCODER.encode(PeerMessage("../b", b"x")),
                ENCODER.encode(PeerMessage("b", bytes(1 << 17))),
            )
        ),
    ],
)
async def test_who_says_what_it_should_not_is_left(said: bytes) -> None:
    lost: list[str] = []
    got: list[object] = []
    async with piped(lambda frame: got.append(REPORTS.decode(frame)), lost.append) as (_, other):
        other.sendall(said)
        await eventually(lambda: len(lost) == 1)
        assert lost[0] != ""
        assert got == []


async def test_what_nobody_reads_is_dropped() -> None:
    async with piped(lambda _: None, lambda _: None) as (made, _):
        sent = sum(made.send(bytes(60_000)) for _ in range(100))
        assert 16 <= sent < 100
        assert not made.send(bytes(pipe.MAX_FRAME + 1))


async def test_messages_of_one_turn_go_in_one_write() -> None:
    ours, theirs = socket.socketpair()
    told: list[bytes] = []
    one, other = Pipe(told.append, lambda _: None), Pipe(told.append, lambda _: None)
    loop = asyncio.get_running_loop()
    link, _ = await loop.create_unix_connection(lambda: one, sock=ours)
    await loop.create_unix_connection(lambda: other, sock=theirs)
    written: list[int] = []
    write = link.write
    link.write = lambda data: (written.append(len(data)), write(data))[1]  # type: ignore[method-assign,func-returns-value]
    assert one.send(b"first")
    assert one.send(b"second")
    assert written == []
    await eventually(lambda: told == [b"first", b"second"])
    assert len(written) == 1
    one.close()
    other.close()
