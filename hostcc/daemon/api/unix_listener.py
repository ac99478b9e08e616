"""One UNIX socket that the agent answers at, in a thread and a loop of its own.

A client can make whoever reads its socket wait (unixsocket.refuse_descriptors), and decoding
requests and encoding answers costs time; neither must keep the loop that beats waiting.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

from hostcc.log import get_logger
from hostcc.system import unix_socket

log = get_logger("control")
BACKLOG = 128
END_S = 5.0
"""For the thread to end in; one that a client holds up is left behind."""
READER_INTERVAL_S = 0.002
"""Between two connections at a socket that others than root may reach.

Who connects in a loop then waits for the kernel's backlog instead of taking processor time from
the agent: at 500 connections a second accepting takes about a tenth of a processor.
"""
ACCEPT_RETRY_S = 1.0
"""After a connection that could not be accepted, for want of descriptors or memory."""

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def listen_at(path: Path, group: int | None) -> socket.socket:
    """A listening UNIX socket, for the group or only for root.  Raises HostccError."""
    listener = unix_socket.bind(path, socket.SOCK_STREAM, "control socket", group=group)
    unix_socket.refuse_descriptors(listener)
    listener.listen(BACKLOG)
    return listener


class UnixListener:
    """Listens at `path`, for members of `group` or only for root.  Raises HostccError when made."""

    def __init__(self, path: Path, group: int | None, serve: Serve, most_bytes: int) -> None:
        self.path = path
        self._listener = listen_at(path, group)
        self._inode = path.stat().st_ino
        self._serve, self._most = serve, most_bytes
        self._interval_s = READER_INTERVAL_S if group is not None else 0.0
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._end = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name=f"listener {path.name}", daemon=True)

    def open(self) -> None:
        """Begin to answer."""
        self._thread.start()

    async def close(self) -> None:
        """Stop answering, drop the clients, remove the socket if it is still ours."""
        if self._thread.is_alive():
            with suppress(RuntimeError):  # it has just ended
                self._loop.call_soon_threadsafe(self._end.set)
            await asyncio.to_thread(self._thread.join, END_S)
            if self._thread.is_alive():
                log.warning("a client holds up a socket's thread: left behind", path=str(self.path))
        self._listener.close()
        if self.intact():
            self.path.unlink(missing_ok=True)

    def intact(self) -> bool:
        """Whether the path still leads here."""
        try:
            return self.path.stat().st_ino == self._inode
        except OSError:
            return False

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._answer())
        finally:
            self._loop.close()

    async def _answer(self) -> None:
        accepting = self._loop.create_task(self._accept())
        await self._end.wait()
        accepting.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(accepting, *self._tasks, return_exceptions=True)

    async def _accept(self) -> None:
        self._listener.setblocking(False)
        while True:
            try:
                client, _ = await self._loop.sock_accept(self._listener)
            except ConnectionAbortedError:
                continue
            except OSError as error:
                log.failure("a client is not accepted", reason=str(error))
                await asyncio.sleep(ACCEPT_RETRY_S)
                continue
            task = self._loop.create_task(self._converse(client))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            await asyncio.sleep(self._interval_s)

    async def _converse(self, client: socket.socket) -> None:
        reader, writer = await asyncio.open_unix_connection(sock=client, limit=self._most)
        try:
            await self._serve(reader, writer)
        except (OSError, TimeoutError, asyncio.CancelledError):
            pass  # the client went away, or was too slow, or we end
        finally:
            writer.transport.abort()
