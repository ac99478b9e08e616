"""The control socket's server: bounded, typed, and deaf to whoever may not ask.

One JSON line in, one out, as often as the client likes.  A client has `request_s` for a
whole request, so a slow one only loses its own connection; clients and their share per
user are bounded.  Root has a socket of its own, which no crowd of readers can fill, and
readers together get at most a part of the agent's time, one request after the other.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from hostcc.client import root_socket_path
from hostcc.daemon.api.credentials import Peer, group_id, peer_of
from hostcc.daemon.api.messages import (
    CHANGING,
    MAX_REQUEST_BYTES,
    OF_OWNERS,
    Request,
    decode,
    failure,
    success,
)
from hostcc.daemon.api.unix_listener import UnixListener
from hostcc.errors import HostccError
from hostcc.log import get_logger

log = get_logger("control")
Handler = Callable[[Request, Peer], Awaitable[Any]]
"""Carries out a request and returns what the answer shows; may raise HostccError."""


@dataclass(frozen=True)
class Bounds:
    """How much of the agent clients may have."""

    clients: int = 64
    """Connections at the same time, at either socket."""
    clients_per_user: int = 16
    """The same, of one user other than root."""
    request_s: float = 10.0
    """Time for one whole request to arrive, seconds."""
    response_s: float = 10.0
    """Time for the client to take the answer, seconds."""
    rest: float = 4.0
    """Readers wait so many times as long as their last request took: so
    they get a fifth of the time."""


class Turns:
    """Requests of users other than root: one at a time, users in turns, with rests between.

    For one event loop.
    """

    def __init__(self, rest: float) -> None:
        self._rest = rest
        self._ends_s = 0.0
        self._all = asyncio.Lock()
        self._of_user: defaultdict[int, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def take(self, user: int, call: Callable[[], Awaitable[bytes]]) -> bytes:
        """What the call comes to, in the user's turn."""
        mine = self._of_user[user]
        try:
            async with mine, self._all:  # a user waits once for all, so that users take turns
                await asyncio.sleep(max(0.0, self._ends_s - time.monotonic()))
                began_s = time.monotonic()
                try:
                    return await call()
                finally:
                    now_s = time.monotonic()
                    self._ends_s = now_s + self._rest * (now_s - began_s)
        finally:
            if not mine.locked():
                self._of_user.pop(user, None)


class ControlServer:
    """Listens at `path`, where members of `group` may read, and at root's own socket beside it."""

    def __init__(self, path: Path, group: str, handler: Handler, bounds: Bounds | None = None):
        self._path = path
        self._group = group_id(group)
        self._handler = handler
        self._bounds = bounds or Bounds()
        self._listeners: list[UnixListener] = []

    async def start(self) -> None:
        """Listen.  Raises HostccError when a path is taken or cannot be made."""
        ours = asyncio.get_running_loop()
        wanted = [(self._path, self._group)]
        if (beside := root_socket_path(self._path)) is not None:
            wanted.append((beside, None))
        try:
            for path, group in wanted:
                handler = _RequestHandler(self._handler, ours, self._bounds, self._group)
                self._listeners.append(UnixListener(path, group, handler.serve, MAX_REQUEST_BYTES))
        except BaseException:
            await self.close()
            raise
        for listener in self._listeners:
            listener.open()

    async def close(self) -> None:
        """Stop listening, drop the clients, remove the sockets if they are still ours."""
        for listener in self._listeners:
            await listener.close()

    def intact(self) -> bool:
        """Whether the paths still lead to this server."""
        return bool(self._listeners) and all(listener.intact() for listener in self._listeners)


class _RequestHandler:
    """Answers what comes to one socket, in its listener's loop; the agent's loop does the work."""

    def __init__(
        self,
        handler: Handler,
        agents_loop: asyncio.AbstractEventLoop,
        bounds: Bounds,
        group: int | None,
    ) -> None:
        self._handler, self._loop = handler, agents_loop
        self._bounds, self._group = bounds, group
        self._clients: Counter[int] = Counter()
        self._turns = Turns(bounds.rest)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer a client until it goes."""
        peer = peer_of(writer.get_extra_info("socket"))
        if self._crowded(peer):
            await self._send(writer, failure("busy", "too many clients: try again later"))
            return
        self._clients[peer.uid] += 1
        try:
            await self._converse(reader, writer, peer)
        finally:
            self._clients[peer.uid] -= 1

    def _crowded(self, peer: Peer) -> bool:
        if self._clients.total() >= self._bounds.clients:
            return True
        return peer.uid != 0 and self._clients[peer.uid] >= self._bounds.clients_per_user

    async def _converse(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, peer: Peer
    ) -> None:
        while True:
            try:
                async with asyncio.timeout(self._bounds.request_s):
                    line = await reader.readuntil(b"\n")
            except asyncio.IncompleteReadError:
                return
            except asyncio.LimitOverrunError:
                words = f"request: expected at most {MAX_REQUEST_BYTES} bytes in one line"
                await self._send(writer, failure("bad-request", words))
                return
            answer = partial(self._answer, line, peer)
            turn = answer() if peer.uid == 0 else self._turns.take(peer.uid, answer)
            await self._send(writer, await turn)

    async def _send(self, writer: asyncio.StreamWriter, line: bytes) -> None:
        writer.write(line)
        async with asyncio.timeout(self._bounds.response_s):
            # drain() alone returns while up to 64 KiB are still here.
            writer.transport.set_write_buffer_limits(0)
            await writer.drain()

    async def _answer(self, line: bytes, peer: Peer) -> bytes:
        try:
            request = decode(line)
            self._authorise(request, peer)
            return success(await self._done(request, peer))
        except PermissionError as error:
            return failure("denied", str(error))
        except HostccError as error:
            return failure(error.code, str(error))
        except Exception as error:  # noqa: BLE001 - one bad request must not end the agent
            log.defect("request failed", error)
            return failure("failed", f"the agent could not do it: {error!r}")

    async def _done(self, request: Request, peer: Peer) -> Any:
        async def work() -> Any:
            return await self._handler(request, peer)

        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work(), self._loop))

    def _authorise(self, request: Request, peer: Peer) -> None:
        if isinstance(request, CHANGING) and not isinstance(request, OF_OWNERS):
            if not peer.may_change():
                raise PermissionError("changing needs root")
        elif not peer.may_read(self._group):
            raise PermissionError("reading needs root or the agent's socket_group")
