"""The control socket's server: bounded, typed, and deaf to whoever may not ask.

One JSON line in, one out, as often as the client likes.  A client has `request_s` for a
whole request, so a slow one only loses its own connection; clients and their share per
user are bounded, so a crowd of unprivileged readers cannot lock root out.
"""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hostcc import unixsocket
from hostcc.errors import HostccError
from hostcc.log import get_logger
from hostcc.messages import (
    CHANGING,
    MAX_REQUEST_BYTES,
    Request,
    decode,
    failure,
    success,
)
from hostcc.peer import Peer, group_id, peer_of

log = get_logger("control")
Handler = Callable[[Request, Peer], Awaitable[Any]]
"""Carries out a request and returns what the answer shows; may raise HostccError."""


@dataclass(frozen=True)
class Bounds:
    """How much of the agent clients may have."""

    clients: int = 64
    """Connections at the same time."""
    clients_per_user: int = 16
    """The same, of one user other than root."""
    request_s: float = 10.0
    """Time for one whole request to arrive, seconds."""
    response_s: float = 10.0
    """Time for the client to take the answer, seconds."""


class ControlServer:
    """Listens at `path`; members of `group` may read, root may change."""

    def __init__(self, path: Path, group: str, handler: Handler, bounds: Bounds | None = None):
        self._path = path
        self._group = group_id(group)
        self._handler = handler
        self._bounds = bounds or Bounds()
        self._clients: Counter[int] = Counter()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self._inode = 0

    async def start(self) -> None:
        """Listen.  Raises HostccError when the path is taken or cannot be made."""
        listener = listen_at(self._path, self._group)
        self._inode = self._path.stat().st_ino
        self._server = await asyncio.start_unix_server(
            self._serve, sock=listener, limit=MAX_REQUEST_BYTES
        )

    async def close(self) -> None:
        """Stop listening, drop the clients, remove the socket if it is still ours."""
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self.intact():
            self._path.unlink(missing_ok=True)

    def intact(self) -> bool:
        """Whether the path still leads to this server."""
        try:
            return self._path.stat().st_ino == self._inode
        except OSError:
            return False

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            peer = peer_of(writer.get_extra_info("socket"))
            if self._crowded(peer):
                await self._send(writer, failure("busy", "too many clients: try again later"))
                return
            self._clients[peer.uid] += 1
            try:
                await self._converse(reader, writer, peer)
            finally:
                self._clients[peer.uid] -= 1
        except (OSError, TimeoutError, asyncio.CancelledError):
            pass  # the client went away, or was too slow, or we end
        finally:
            self._tasks.discard(task)
            writer.transport.abort()

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
            await self._send(writer, await self._answer(line, peer))

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
            return success(await self._handler(request, peer))
        except PermissionError as error:
            return failure("denied", str(error))
        except HostccError as error:
            return failure(error.code, str(error))
        except Exception as error:  # noqa: BLE001 - one bad request must not end the agent
            log.defect("request failed", error)
            return failure("failed", f"the agent could not do it: {error!r}")

    def _authorise(self, request: Request, peer: Peer) -> None:
        if isinstance(request, CHANGING):
            if not peer.may_change():
                raise PermissionError("changing needs root")
        elif not peer.may_read(self._group):
            raise PermissionError("reading needs root or the agent's socket_group")


def listen_at(path: Path, group: int | None) -> socket.socket:
    """A listening UNIX socket, for the group or only for root.  Raises HostccError."""
    listener = unixsocket.bind(path, socket.SOCK_STREAM, "control socket", group=group)
    listener.listen(128)
    return listener
