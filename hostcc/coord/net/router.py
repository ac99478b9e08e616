"""The socket that other members connect to, and the routes back to them."""

from __future__ import annotations

from collections.abc import Callable

import zmq

from hostcc.coord.keys.keyring import Keyring
from hostcc.coord.net.address import Address
from hostcc.coord.net.connections import Connection, Connections
from hostcc.coord.net.curve_auth import DOMAIN
from hostcc.coord.net.dealers import set_common_options
from hostcc.coord.net.listener import TcpListener
from hostcc.coord.net.monitor import HandshakeFailure, Monitor
from hostcc.coord.net.rate import TokenBucket
from hostcc.coord.net.socket_reader import SocketReader
from hostcc.coord.net.transport_settings import TransportSettings

SKIPPED_PARTS = 256
"""Parts of an invalid multipart message discarded in one turn of the event loop."""
CHECK_GROUPS = 4
"""Connections are checked in this many groups, one group after the other, this many a second."""
REASONS: dict[HandshakeFailure | None, str] = {
    HandshakeFailure.PROTOCOL: (
        "no handshake: it has no key, or not this host's, or repeats an old one"
    ),
    HandshakeFailure.MECHANISM: (
        "no handshake: it has no keys and this host has, or the other way round"
    ),
    HandshakeFailure.BROKEN: "it broke the handshake off, or was too slow",
}

Received = Callable[[bytes, zmq.Frame, Connection | None], float]
"""Handles (routing id, first part of a message, connection); returns seconds to pause reading."""


class Router:
    """Listens, tracks each connection, and routes by the peer that authenticated on it."""

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        listen: Address,
        keyring: Keyring | None,
        settings: TransportSettings,
        received: Received,
        refused: Callable[[str, str], None],
        clock: Callable[[], float],
    ) -> None:
        """`refused(address, reason)` reports a refusal. Raises HostccError if it cannot listen."""
        self._context, self._keyring, self._settings = context, keyring, settings
        self._received, self._refused, self._clock = received, refused, clock
        self._accepts = TokenBucket(settings.accepts_per_s, settings.accepts_burst)
        self._routes: dict[str, tuple[bytes, Connection]] = {}
        self._skipping = False
        self._turn, self._looked_at = 0, 0.0
        self._listener = TcpListener(listen)
        self._open()

    @property
    def address(self) -> Address:
        """Address that it listens on."""
        return self._listener.address

    def rekey(self) -> None:
        """Switch to the keyring's current key; connected peers have to reconnect.

        The listening socket stays open, so nobody's connection attempt fails meanwhile.
        """
        self._close_socket()
        self._open()

    def close(self) -> None:
        """Close every connection and stop listening."""
        self._close_socket()
        self._listener.close()

    def connection_of(self, peer: str) -> Connection | None:
        """Return the connection that carried a peer's latest message; None: there is none."""
        route = self._routes.get(peer)
        return route[1] if route is not None else None

    def peers(self) -> list[str]:
        """Return the peers that have a route."""
        return list(self._routes)

    def send(self, peer: str, payload: bytes) -> str | None:
        """Return empty when sent, "queue full", or None when the route turns out to be gone."""
        identity, _ = self._routes[peer]
        try:
            self._socket.send_multipart([identity, payload], zmq.NOBLOCK)
        except zmq.Again:
            return "queue full"
        except zmq.ZMQError:  # EHOSTUNREACH: it has just gone
            del self._routes[peer]
            return None
        finally:
            self._reader.wake()
        return ""

    def set_peer(self, peer: str, identity: bytes, connection: Connection, curve: str) -> None:
        """Record that an authenticated message of `peer` came over a connection."""
        self.connections.set_peer(connection, curve, peer)
        self._routes[peer] = (identity, connection)

    def tick(self, now: float) -> list[Connection]:
        """Reopen the listener when due; return connections that received more than allowed."""
        few = len(self.connections) < 0.9 * self._settings.max_accepted
        if self._listener.closed and few and self._accepts.wait(now) <= 0:
            self._listener.open()
        parts = min(CHECK_GROUPS, max(1, round(CHECK_GROUPS * (now - self._looked_at))))
        turns = {(self._turn + part) % CHECK_GROUPS for part in range(parts)}
        self._turn, self._looked_at = self._turn + parts, now
        return [
            c for c in self.connections if c.fd % CHECK_GROUPS in turns and not c.within_limit(now)
        ]

    def _open(self) -> None:
        s = self._settings
        self.connections = Connections(
            s.flood_factor * s.bytes_per_s, s.flood_factor * s.bytes_burst
        )
        self._routes.clear()
        self._skipping = False
        self._socket = self._context.socket(zmq.ROUTER)
        set_common_options(self._socket, s)
        self._socket.router_mandatory = True
        if self._keyring is None:
            self._socket.router_handover = True  # a reconnecting peer replaces its old connection
        else:
            key = self._keyring.current
            self._socket.curve_server = True
            self._socket.curve_secretkey = bytes.fromhex(key.curve)
            self._socket.zap_domain = DOMAIN
            # Without it, ZeroMQ admits everybody when no ZAP handler answers.
            self._socket.setsockopt(zmq.ZAP_ENFORCE_DOMAIN, 1)
        self._monitor = Monitor(self._context, self._socket, self._opened, self._closed)
        self._reader = SocketReader(self._socket, self._take)
        self._socket.setsockopt(zmq.USE_FD, self._listener.duplicate())
        self._socket.bind(self._listener.address.endpoint)

    def _close_socket(self) -> None:
        self._monitor.close()
        self._reader.close()
        self._socket.close(linger=0)

    def _take(self) -> float:
        if self._skipping:
            self._skip()
            return 0.0
        identity = self._socket.recv(zmq.NOBLOCK)
        frame = self._socket.recv(zmq.NOBLOCK, copy=False)
        self._skipping = frame.more
        curve = user_of(frame)
        try:
            fd = int(frame.get(zmq.SRCFD))
        except (zmq.ZMQError, ValueError):
            fd = -1
        connection = self.connections.get(fd)
        if connection is None or (connection.peer and connection.curve != curve):
            self._monitor.drain()  # the descriptor may be another connection's by now
            connection = self.connections.get(fd)
        return self._received(identity, frame, connection)

    def _skip(self) -> None:
        for _ in range(SKIPPED_PARTS):
            if not self._socket.recv(zmq.NOBLOCK, copy=False).more:
                self._skipping = False
                return

    def _opened(self, fd: int) -> None:
        now = self._clock()
        connection = self.connections.opened(fd)
        if connection is None:
            return
        if not self._accepts.take(1, now) or len(self.connections) >= self._settings.max_accepted:
            self._listener.shut()
            self._refused("any", "too many connections at a time: no new ones for a while")
        if self.connections.strangers_at(connection.remote[0]) > self._settings.max_strangers:
            self._refused(connection.remote[0], "too many connections without a message")
            connection.cut()

    def _closed(self, fd: int, failure: HandshakeFailure | None) -> None:
        connection = self.connections.closed(fd)
        if connection is not None and connection.peer:
            route = self._routes.get(connection.peer)
            if route is not None and route[1] is connection:
                del self._routes[connection.peer]
        if failure is HandshakeFailure.AUTH or (failure is None and connection and connection.peer):
            return  # already reported by the authenticator, or an orderly end
        address = connection.remote[0] if connection is not None else "unknown"
        self._refused(address, REASONS.get(failure, "it left, or spoke another protocol"))


def user_of(frame: zmq.Frame) -> str:
    """Return the CURVE key (hexadecimal) that a message came with; empty: none."""
    try:
        return str(frame.get("User-Id"))
    except zmq.ZMQError:
        return ""
