"""Reads a ZeroMQ socket from the asyncio loop, a bounded number of messages at a time.

ZeroMQ's descriptor is edge-triggered (zmq_getsockopt(3), ZMQ_FD): a socket must be read until it is
empty, and checked again after each send.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import zmq

from hostcc.log import get_logger

log = get_logger("gossip")

BATCH = 64


class SocketReader:
    """Calls `take` for each message while there is one.

    `take` receives without blocking and lets zmq.Again pass when there is nothing. It returns the
    seconds for which to pause reading (0: none), which puts back-pressure on senders.
    """

    def __init__(self, socket: zmq.Socket[bytes], take: Callable[[], float]) -> None:
        self._loop = asyncio.get_running_loop()
        self._socket = socket
        self._take = take
        self._fd = int(socket.getsockopt(zmq.FD))
        self._next: asyncio.Handle | None = None
        self._waiting = False
        self._closed = False
        self._loop.add_reader(self._fd, self._readable)
        self.wake()

    def wake(self) -> None:
        """Check the socket soon; call after each send on it."""
        if self._next is None and not self._closed:
            self._next = self._loop.call_soon(self._ready)

    def close(self) -> None:
        """Stop reading; the caller closes the socket."""
        if not self._closed:
            self._closed = True
            self._loop.remove_reader(self._fd)
            if self._next is not None:
                self._next.cancel()

    def _readable(self) -> None:
        if self._waiting:
            self._socket.getsockopt(zmq.EVENTS)  # clears the descriptor until more arrives
        else:
            self._run()

    def _ready(self) -> None:
        self._next, self._waiting = None, False
        self._run()

    def _run(self) -> None:
        for _ in range(BATCH):
            if self._closed or self._waiting:
                return
            try:
                delay = self._take()
            except zmq.Again:
                return
            except Exception as error:  # noqa: BLE001 - one message must not end the reading
                log.defect("message not handled", error)
                continue
            if delay > 0 and not self._closed:
                self._waiting = True
                if self._next is not None:
                    self._next.cancel()
                self._next = self._loop.call_later(delay, self._ready)
                return
        self.wake()
