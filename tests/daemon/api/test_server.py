"""The control socket against polite, rude and forbidden clients."""

from __future__ import annotations

import asyncio
import grp
import json
import os
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hostcc import client
from hostcc.daemon.api import server as control
from hostcc.daemon.api.credentials import Peer, group_id, peer_of
from hostcc.daemon.api.messages import MAX_REQUEST_BYTES, Flows, Request, Status, Unfair
from hostcc.daemon.api.server import Bounds, ControlServer, Turns
from hostcc.daemon.api.unix_listener import listen_at
from hostcc.errors import HostccError, InputError, NoAgentError

ROOT = Peer(1, 0, frozenset())
READER = Peer(2, 1000, frozenset({77}))
STRANGER = Peer(3, 1001, frozenset({1001}))
ANYBODYS_PYTHON = Path(sys.executable).resolve()
"""Nobody else gets at an environment below root's home."""


async def handle(request: Request, peer: Peer) -> Any:
    match request:
        case Status():
            return {"pid": peer.pid}
        case Flows(limit=7):
            raise HostccError("no such thing")
        case Flows():
            raise ValueError("a bug")
        case Unfair(mode=mode):
            return {"mode": mode}
    return "x" * 1_000_000


def conversation(
    path: Path,
    body: Callable[[Path], Awaitable[None]],
    bounds: Bounds | None = None,
    group: str = "",
) -> None:
    async def play() -> None:
        server = ControlServer(path, group, handle, bounds)
        await server.start()
        try:
            async with asyncio.timeout(120):
                await body(path)
        finally:
            await server.close()

    asyncio.run(play())


async def say(path: Path, raw: bytes, end: bool = True) -> bytes:
    """Everything that comes back for `raw`."""
    reader, writer = await asyncio.open_unix_connection(path, limit=1 << 24)
    with suppress(ConnectionError):
        writer.write(raw)
        if end:
            writer.write_eof()
    answer = b""
    with suppress(ConnectionError):
        answer = await reader.read()
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()
    return answer


def replace(path: Path) -> None:
    path.unlink()
    path.write_text("")


def code(answer: bytes) -> str:
    return str(json.loads(answer)["error"]["code"])


def test_several_requests_in_one_connection(tmp_path: Path) -> None:
    async def body(path: Path) -> None:
        answer = await say(path, b'{"op":"status"}\n{"op":"nonsense"}\n{"op":"changes"}\n')
        first, second, third = answer.splitlines()
        assert json.loads(first)["result"] == {"pid": os.getpid()}
        assert code(second) == "bad-request"
        assert len(json.loads(third)["result"]) == 1_000_000

    conversation(tmp_path / "s", body)
    assert not (tmp_path / "s").exists()


def test_failures_do_not_end_the_server(tmp_path: Path) -> None:
    async def body(path: Path) -> None:
        assert code(await say(path, b'{"op":"flows"}\n')) == "failed"
        answer = json.loads(await say(path, b'{"op":"flows","limit":7}\n'))
        assert answer["error"] == {"code": "failed", "message": "no such thing"}
        assert json.loads(await say(path, b'{"op":"status"}\n'))["ok"]

    conversation(tmp_path / "s", body)


def test_huge_and_half_requests(tmp_path: Path) -> None:
    async def body(path: Path) -> None:
        huge = await say(path, b'{"op":"' + b"x" * (4 * MAX_REQUEST_BYTES), end=False)
        assert not huge or code(huge) == "bad-request"
        assert await say(path, b'{"op":"stat') == b""
        assert await say(path, b"") == b""
        assert json.loads(await say(path, b'{"op":"status"}\n'))["ok"]

    conversation(tmp_path / "s", body)


def test_a_slow_client_loses_its_connection_only(tmp_path: Path) -> None:
    async def body(path: Path) -> None:
        slow = asyncio.create_task(say(path, b'{"op":', end=False))
        assert json.loads(await say(path, b'{"op":"status"}\n'))["ok"]
        assert await slow == b""

    conversation(tmp_path / "s", body, Bounds(request_s=0.2))


def test_a_client_that_does_not_read_is_dropped(tmp_path: Path) -> None:
    async def body(path: Path) -> None:
        reader, writer = await asyncio.open_unix_connection(path, limit=1024)
        writer.write(b'{"op":"changes"}\n' * 20)
        await asyncio.sleep(0.5)
        with suppress(ConnectionError):
            assert len(await reader.read()) < 20_000_000
        writer.close()
        assert json.loads(await say(path, b'{"op":"status"}\n'))["ok"]

    conversation(tmp_path / "s", body, Bounds(response_s=0.2))


def test_crowds_are_turned_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    peers = iter([READER, READER, READER, ROOT, ROOT])
    monkeypatch.setattr(control, "peer_of", lambda sock: next(peers))
    monkeypatch.setattr(control, "group_id", lambda name: 77)

    async def body(path: Path) -> None:
        held = [await asyncio.open_unix_connection(path) for _ in range(2)]
        await asyncio.sleep(0.1)
        assert code(await say(path, b"", end=False)) == "busy"
        held.append(await asyncio.open_unix_connection(path))
        await asyncio.sleep(0.1)
        assert code(await say(path, b"", end=False)) == "busy"
        for _, writer in held:
            writer.close()
            await writer.wait_closed()

    conversation(tmp_path / "s", body, Bounds(clients=3, clients_per_user=2))


@pytest.mark.parametrize(
    ("peer", "read", "change"),
    [(ROOT, "ok", "ok"), (READER, "ok", "denied"), (STRANGER, "denied", "denied")],
)
def test_who_may_do_what(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, peer: Peer, read: str, change: str
) -> None:
    monkeypatch.setattr(control, "peer_of", lambda sock: peer)
    monkeypatch.setattr(control, "group_id", lambda name: 77)
    monkeypatch.setattr(os, "chown", lambda *args: None)

    async def body(path: Path) -> None:
        for raw, expected in (
            (b'{"op":"status"}\n', read),
            (b'{"op":"unfair","mode":"off"}\n', change),
            (b'{"op":"register","job":"a"}\n', read),
            (b'{"op":"job","job":"a"}\n', read),
        ):
            answer = json.loads(await say(path, raw))
            assert ("ok" if answer["ok"] else answer["error"]["code"]) == expected

    conversation(tmp_path / "s", body)


def test_mode_and_owner_of_the_socket(tmp_path: Path) -> None:
    listen_at(tmp_path / "a", None).close()
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o600
    listen_at(tmp_path / "b", os.getgid()).close()
    assert stat.S_IMODE((tmp_path / "b").stat().st_mode) == 0o660


def test_what_is_at_the_path_already(tmp_path: Path) -> None:
    path = tmp_path / "s"
    listen_at(path, None).close()
    with listen_at(path, None), pytest.raises(HostccError, match="another program listens"):
        listen_at(path, None)
    path.unlink()
    path.write_text("precious")
    with pytest.raises(HostccError, match="something else is there"):
        listen_at(path, None)
    assert path.read_text() == "precious"
    with pytest.raises(HostccError, match="No such file"):
        listen_at(tmp_path / "none" / "s", None)


def test_closing_leaves_a_successors_socket_alone(tmp_path: Path) -> None:
    path = tmp_path / "s"

    async def body(at: Path) -> None:
        replace(at)

    conversation(path, body)
    assert path.exists()


def test_peer_is_the_kernels_word() -> None:
    left, right = socket.socketpair()
    with left, right:
        peer = peer_of(left)
    assert (peer.pid, peer.uid) == (os.getpid(), os.getuid())
    assert os.getgid() in peer.groups
    assert group_id("") is None
    assert group_id("no-such-group-here") is None


async def ask_as(path: Path, gid: int, groups: Sequence[int]) -> bytes:
    """What a process of an ordinary user is answered."""
    script = (
        "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]);"
        's.sendall(b\'{"op":"status"}\\n\'); print(s.recv(9999).decode())'
    )
    child = await asyncio.create_subprocess_exec(
        ANYBODYS_PYTHON, "-c", script, path,
        stdout=subprocess.PIPE, user=65534, group=gid, extra_groups=groups, cwd="/",
    )  # fmt: skip
    out, _ = await child.communicate()
    return out


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user may pass."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.mark.kernel
def test_another_user_is_recognised(open_folder: Path) -> None:
    async def body(at: Path) -> None:
        os.chmod(at, 0o666)  # noqa: PTH101
        assert code(await ask_as(at, 65534, ())) == "denied"

    conversation(open_folder / "s", body)


@pytest.mark.kernel
@pytest.mark.parametrize("count", [1, 256, 257, 300, 65535])
def test_members_of_the_group_may_read_however_many_groups_they_have(
    open_folder: Path, count: int
) -> None:
    readers = grp.getgrall()[-1]
    others = [gid for gid in range(100_000, 200_000) if gid != readers.gr_gid][:count]

    async def body(at: Path) -> None:
        answer = await ask_as(at, 65534, [*others[1:], readers.gr_gid])
        assert json.loads(answer)["ok"]
        os.chmod(at, 0o666)  # noqa: PTH101
        assert code(await ask_as(at, 65534, others)) == "denied"

    conversation(open_folder / "s", body, group=readers.gr_name)


@given(st.lists(st.binary(max_size=80), max_size=4))
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_leave_the_server_standing(tmp_path: Path, chunks: list[bytes]) -> None:
    async def body(path: Path) -> None:
        answer = await say(path, b"\n".join(chunks))
        for line in answer.splitlines():
            assert json.loads(line)["v"] == 1
        assert json.loads(await say(path, b'{"op":"status"}\n'))["ok"]

    conversation(tmp_path / "s", body)


def test_client(tmp_path: Path) -> None:
    async def body(path: Path) -> None:
        answer = await asyncio.to_thread(client.ask, path, "status")
        assert answer == {"pid": os.getpid()}
        with pytest.raises(InputError, match="request: limit"):
            await asyncio.to_thread(client.ask, path, "flows", limit=-1)
        with pytest.raises(client.RefusedError, match="no such thing") as caught:
            await asyncio.to_thread(client.ask, path, "flows", limit=7)
        assert caught.value.code == "failed"

    conversation(tmp_path / "s", body)
    with pytest.raises(NoAgentError, match="no agent at"):
        client.ask(tmp_path / "s", "status")


def test_client_of_something_else(tmp_path: Path) -> None:
    with listen_at(tmp_path / "mute", None), pytest.raises(NoAgentError, match="within"):
        client.ask(tmp_path / "mute", "status", timeout_s=0.1)

    async def body() -> None:
        async def chatter(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readline()  # closing before the request is written would break the pipe
            writer.write(b"hello\n")
            await writer.drain()
            writer.close()

        server = await asyncio.start_unix_server(chatter, tmp_path / "other")
        async with server:
            with pytest.raises(client.RefusedError, match="expected a hostcc agent"):
                await asyncio.to_thread(client.ask, tmp_path / "other", "status")

    asyncio.run(body())


def test_readers_take_turns_and_rest() -> None:
    """Two users, one with twenty requests at once: the other waits for one of them, not for all."""

    async def play() -> list[str]:
        turns, order = Turns(0.0), list[str]()

        async def call(name: str) -> bytes:
            await asyncio.sleep(0)
            order.append(name)
            return b""

        first = [turns.take(1, lambda: call("many")) for _ in range(20)]
        await asyncio.gather(*first, turns.take(2, lambda: call("one")))
        return order

    assert asyncio.run(play()).index("one") <= 1


def test_a_crowd_of_readers_leaves_root_a_socket(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control, "group_id", lambda name: 77)
    monkeypatch.setattr(os, "chown", lambda *args: None)

    async def body(path: Path) -> None:
        held = [await asyncio.open_unix_connection(path) for _ in range(2)]
        assert code(await say(path, b"", end=False)) == "busy"
        shown = await asyncio.to_thread(client.ask, path, "status")
        assert shown == {"pid": os.getpid()}
        for _, writer in held:
            writer.close()

    conversation(tmp_path / "s", body, Bounds(clients=2))
    assert list(tmp_path.iterdir()) == []


def test_a_path_too_long_for_a_second_socket_has_one() -> None:
    path = Path("/" + "x" * 104)
    assert client.root_socket_path(path) is None
    assert client.root_socket_path(Path("/run/hostcc/control.sock")) == Path(
        "/run/hostcc/control-root.sock"
    )
