"""The socket that others connect to, and the way back to those who did."""

from __future__ import annotations

from collections.abc import Callable

import zmq

from hostcc.coord.keys.keyring import Keyring
from hostcc.coord.net.address import Address
from hostcc.coord.net.connections import Connection, Connections
from hostcc.coord.net.curve_auth import DOMAIN
from hostcc.coord.net.dealers import set_common_options
from hostcc.coord.net.listener import TcpListener
from hostcc.coord.net.monitor import Failure, Monitor
from hostcc.coord.net.rate import TokenBucket
from hostcc.coord.net.socket_reader import SocketReader
from hostcc.coord.net.transport_settings import TransportSettings

SKIPPED_PARTS = 256
"""Parts of a message that should have one only which are thrown away at a turn."""
LOOKS = 4
"""Connections are looked at in so many parts, so many of them a second."""
REASONS: dict[Failure | None, str] = {
    Failure.PROTOCOL: "no handshake: it has no key, or not this host's, or repeats an old one",
    Failure.MECHANISM: "no handshake: it has no keys and this host has, or the other way round",
    Failure.BROKEN: "it broke the handshake off, or was too slow",
}

Received = Callable[[bytes, zmq.Frame, Connection | None], float]
"""(Routing id, first part of a message, where it came from) -> seconds to read no more."""


class Router:
    """Listens; knows each connection and, by the peer that is proven to be there, the way back."""

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
        """`refused(address, reason)`.  Raises HostccError when it cannot listen."""
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
        """Where it listens."""
        return self._listener.address

    def rekey(self) -> None:
        """Use the keyring's current key: who was connected connects again.

        The listening socket stays, so nobody's connecting is refused meanwhile.
        """
        self._close_socket()
        self._open()

    def close(self) -> None:
        """End every connection and listen no more."""
        self._close_socket()
        self._listener.close()

    def connection_of(self, peer: str) -> Connection | None:
        """A peer's connection to us, the one that its latest message came over."""
        route = self._routes.get(peer)
        return route[1] if route is not None else None

    def peers(self) -> list[str]:
        """Those that there is a way to."""
        return list(self._routes)

    def send(self, peer: str, payload: bytes) -> str | None:
        """Empty when sent, "queue full", or None when there is no way to the peer after all."""
        identity, _ = self._routes[peer]
        try:
            self._socket.send_multipart([identity, payload], zmq.NOBLOCK)
        except zmq.Again:
            return "queue full"
        except zmq.ZMQError:  # EHOSTUNREACH: it has just gone
            del self._routes[peer]
            return None
        finally:
            self._pump.wake()
        return ""

    def proven(self, peer: str, identity: bytes, connection: Connection, curve: str) -> None:
        """A message with the key of `peer` came over a connection."""
        self.connections.proven(connection, curve, peer)
        self._routes[peer] = (identity, connection)

    def tick(self, now: float) -> list[Connection]:
        """Look after the listener; connections over which more came than may."""
        few = len(self.connections) < 0.9 * self._settings.max_accepted
        if self._listener.closed and few and self._accepts.wait(now) <= 0:
            self._listener.open()
        parts = min(LOOKS, max(1, round(LOOKS * (now - self._looked_at))))
        turns = {(self._turn + part) % LOOKS for part in range(parts)}
        self._turn, self._looked_at = self._turn + parts, now
        return [c for c in self.connections if c.fd % LOOKS in turns and not c.look(now)]

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
            self._socket.router_handover = True  # who connects again is who it says it is
        else:
            key = self._keyring.current
            self._socket.curve_server = True
            self._socket.curve_secretkey = bytes.fromhex(key.curve)
            self._socket.zap_domain = DOMAIN
            # Without it, everybody gets in whenever nobody answers.
            self._socket.setsockopt(zmq.ZAP_ENFORCE_DOMAIN, 1)
        self._monitor = Monitor(self._context, self._socket, self._opened, self._closed)
        self._pump = SocketReader(self._socket, self._take)
        self._socket.setsockopt(zmq.USE_FD, self._listener.duplicate())
        self._socket.bind(self._listener.address.endpoint)

    def _close_socket(self) -> None:
        self._monitor.close()
        self._pump.close()
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

    def _closed(self, fd: int, failure: Failure | None) -> None:
        connection = self.connections.closed(fd)
        if connection is not None and connection.peer:
            route = self._routes.get(connection.peer)
            if route is not None and route[1] is connection:
                del self._routes[connection.peer]
        if failure is Failure.AUTH or (failure is None and connection and connection.peer):
            return  # said by the gatekeeper, or in good order
        address = connection.remote[0] if connection is not None else "unknown"
        self._refused(address, REASONS.get(failure, "it left, or spoke another protocol"))


def user_of(frame: zmq.Frame) -> str:
    """The key (hexadecimal) that a message came with; empty: none."""
    try:
        return str(frame.get("User-Id"))
    except zmq.ZMQError:
        return ""
