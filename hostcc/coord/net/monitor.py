"""Events of a ZeroMQ socket's connections, as callbacks in the asyncio loop."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from enum import Enum

import zmq
from zmq.utils.monitor import parse_monitor_message

from hostcc.coord.net.socket_reader import SocketReader


class HandshakeFailure(Enum):
    """Why a handshake failed."""

    AUTH = "the server's gatekeeper said no"
    PROTOCOL = "one end said what the other could not read"
    MECHANISM = "one end has keys, the other has none"
    BROKEN = "one end went away, or said nothing for too long"


_FAILED = {
    int(zmq.EVENT_HANDSHAKE_FAILED_AUTH): HandshakeFailure.AUTH,
    int(zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL): HandshakeFailure.PROTOCOL,
    int(zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL): HandshakeFailure.BROKEN,
}
_EVENTS = (
    zmq.EVENT_ACCEPTED
    | zmq.EVENT_CONNECTED
    | zmq.EVENT_DISCONNECTED
    | zmq.EVENT_HANDSHAKE_SUCCEEDED
    | zmq.EVENT_HANDSHAKE_FAILED_AUTH
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
)
_numbers = itertools.count()


class Monitor:
    """Calls back for each connection that opens, closes or (if wanted) becomes ready."""

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        watched: zmq.Socket[bytes],
        opened: Callable[[int], None],
        closed: Callable[[int, HandshakeFailure | None], None],
        ready: Callable[[], None] = lambda: None,
    ) -> None:
        """Callbacks: `opened(descriptor)`, `closed(descriptor, handshake failure or None)`."""
        self._watched = watched
        self._opened, self._closed, self._ready = opened, closed, ready
        self._failure: HandshakeFailure | None = None
        endpoint = f"inproc://monitor-{next(_numbers)}"
        watched.monitor(endpoint, _EVENTS)
        self._socket = context.socket(zmq.PAIR)
        self._socket.linger = 0
        # Unbounded: ZeroMQ's I/O thread writes these events and would block, holding a lock.
        self._socket.rcvhwm = 0
        self._socket.connect(endpoint)
        self._reader = SocketReader(self._socket, self._take)

    def drain(self) -> None:
        """Process all events that have happened so far."""
        try:
            while True:
                self._take()
        except zmq.Again:
            return

    def close(self) -> None:
        """Stop monitoring; call before the watched socket is closed."""
        self._watched.disable_monitor()
        self._reader.close()
        self._socket.close()

    def _take(self) -> float:
        event = parse_monitor_message(self._socket.recv_multipart(zmq.NOBLOCK))
        kind, value = int(event["event"]), int(event["value"])
        if kind in _FAILED:
            self._failure = _FAILED[kind]  # the next event names the descriptor
            if value == int(zmq.PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH):
                self._failure = HandshakeFailure.MECHANISM
        elif kind in {int(zmq.EVENT_ACCEPTED), int(zmq.EVENT_CONNECTED)}:
            self._opened(value)
        elif kind == int(zmq.EVENT_DISCONNECTED):
            failure, self._failure = self._failure, None
            self._closed(value, failure)
        elif kind == int(zmq.EVENT_HANDSHAKE_SUCCEEDED):
            self._ready()
        return 0.0
