"""Connections that this host has opened: few, and each kept as long as it is used.

A member that is changing its keys is tried with each in turn. The delay after a failure doubles,
with jitter, so that a thousand hosts do not return to a restarted one at once.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

import zmq

from hostcc.coord.keys.keyring import Keyring
from hostcc.coord.net.address import Address
from hostcc.coord.net.connections import Connection, remote_of
from hostcc.coord.net.monitor import HandshakeFailure, Monitor
from hostcc.coord.net.rate import MAX_TRACKED_PEERS, TokenBucket
from hostcc.coord.net.socket_reader import SocketReader
from hostcc.coord.net.transport_settings import TransportSettings

CURVE_BYTES = 33
"""Overhead of an encrypted message: its name, nonce, authenticator and flags (ZeroMQ RFC 26)."""
MIN_CONNECTION_AGE_S = 1.0
"""Younger connections are not closed to make room: an answer may still be on its way."""

Received = Callable[[str, "zmq.Socket[bytes]"], float]
"""Handles (peer, its readable socket); returns the seconds for which to pause reading."""


@dataclass
class DialFailure:
    """What is remembered of a peer that could not be reached."""

    delay: float
    until: float
    curve: str
    """The key that was tried; the next attempt uses another one, if there is any."""
    address: Address
    at: float
    """When the connection was given up last."""
    reached: bool
    """Whether the TCP connection was established."""
    failure: HandshakeFailure | None
    """Why the handshake failed; None: there was no handshake."""
    count: int = 1
    """Consecutive failures."""


class Dealer:
    """One connection to one peer. ZeroMQ reconnects by itself when it breaks, for a while."""

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        peer: str,
        address: Address,
        curve: str,
        take: Callable[[], float],
        settings: TransportSettings,
        now: float,
    ) -> None:
        self.peer, self.address, self.curve = peer, address, curve
        self.up = False
        self.failure: HandshakeFailure | None = None
        """Why the last handshake failed; None: it did not fail."""
        self.reached = False
        """Whether a TCP connection was established without ever becoming usable."""
        self.connection: Connection | None = None
        self.made_at = self.used_at = self.down_since = now
        self._settings = settings
        self.socket = context.socket(zmq.DEALER)
        self._take = take
        self._monitor = Monitor(context, self.socket, self._opened, self._closed, self._ready)
        self._reader: SocketReader | None = None

    def connect(self) -> None:
        """Begin to connect; the socket's options must be set."""
        self._reader = SocketReader(self.socket, self._take)
        self.socket.connect(self.address.endpoint)

    def send(self, payload: bytes, now: float) -> bool:
        """Queue a message; return False when the queue is full."""
        self.used_at = now
        try:
            self.socket.send(payload, zmq.NOBLOCK)
        except zmq.Again:
            return False
        finally:
            if self._reader is not None:
                self._reader.wake()
        return True

    def close(self) -> None:
        """Close the connection; queued messages are lost."""
        self._monitor.close()
        if self._reader is not None:
            self._reader.close()
        self.socket.close(linger=0)

    def _opened(self, fd: int) -> None:
        self.reached = True
        remote = remote_of(fd)
        if remote is not None:
            s = self._settings
            flood = TokenBucket(s.flood_factor * s.bytes_per_s, s.flood_factor * s.bytes_burst)
            self.connection = Connection(fd, remote, flood, self.curve, self.peer)

    def _ready(self) -> None:
        self.up = True

    def _closed(self, _: int, failure: HandshakeFailure | None) -> None:
        self.reached = self.reached and not self.up  # false after a usable connection has ended
        self.up, self.connection = False, None
        self.failure = failure


class Dealers:
    """Connections to other members by peer, the most recently used one last."""

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        name: str,
        keyring: Keyring | None,
        settings: TransportSettings,
        received: Received,
        rng: Random,
    ) -> None:
        self._context, self._name, self._keyring = context, name, keyring
        self._settings, self._received, self._rng = settings, received, rng
        self._open: OrderedDict[str, Dealer] = OrderedDict()
        self._failures: OrderedDict[str, DialFailure] = OrderedDict()
        self.dialled = 0
        """Connections opened since the start."""

    def __len__(self) -> int:
        return len(self._open)

    def get(self, peer: str) -> Dealer | None:
        """Return the connection to a peer, which may still be connecting; None: there is none."""
        return self._open.get(peer)

    def all(self) -> list[Dealer]:
        """Return all connections."""
        return list(self._open.values())

    def send(self, peer: str, payload: bytes, now: float) -> bool:
        """Send over the existing connection; return False when its queue is full."""
        self._open.move_to_end(peer)
        return self._open[peer].send(payload, now)

    def dial(self, peer: str, address: Address, now: float) -> str:
        """Open a connection; return empty, or why not: "waiting", "not allowed", "busy"."""
        wait = self._failures.get(peer)
        if wait is not None and now < wait.until:
            return "waiting"
        curve = self._key(peer, wait)
        if curve is None:
            return "not allowed"
        if not self._make_room(now):
            return "busy"
        dealer = Dealer(
            self._context,
            peer,
            address,
            curve,
            lambda: self._received(peer, dealer.socket),
            self._settings,
            now,
        )
        self._set_options(dealer)
        dealer.connect()
        self._open[peer] = dealer
        self.dialled += 1
        return ""

    def heard(self, peer: str) -> None:
        """Forget a peer's failures: a message came over its connection."""
        self._failures.pop(peer, None)

    def drop(self, peer: str) -> None:
        """Close the connection to a peer, if there is one."""
        dealer = self._open.pop(peer, None)
        if dealer is not None:
            dealer.close()

    def close(self) -> None:
        """Close all connections."""
        for peer in list(self._open):
            self.drop(peer)

    def retry_now(self) -> None:
        """Allow new attempts at once: keys have changed, so failed peers may work now."""
        for wait in self._failures.values():
            wait.until, wait.delay, wait.curve = 0.0, self._settings.retry_s[0] / 2, ""

    def failed(self) -> list[str]:
        """Return the peers whose last attempt failed."""
        return list(self._failures)

    def failure(self, peer: str) -> DialFailure | None:
        """Return the failure that is remembered of a peer."""
        return self._failures.get(peer)

    def tick(self, now: float) -> int:
        """Close failed and idle connections; return the number of failed handshakes."""
        failed = 0
        for dealer in self.all():
            if dealer.up:
                dealer.down_since = now
                if now >= dealer.used_at + self._settings.idle_s:
                    self.drop(dealer.peer)
            elif dealer.failure is not None:
                failed += 1
                self._fail(dealer, now)
            elif now >= dealer.down_since + self._settings.down_s:
                self._fail(dealer, now)
        return failed

    def _fail(self, dealer: Dealer, now: float) -> None:
        self.drop(dealer.peer)
        first, most = self._settings.retry_s
        old = self._failures.pop(dealer.peer, None)
        delay = min(most, 2 * old.delay) if old is not None else first
        until = now + delay * self._rng.uniform(0.5, 1.5)
        if len(self._failures) >= MAX_TRACKED_PEERS:
            self._failures.popitem(last=False)
        self._failures[dealer.peer] = DialFailure(
            delay,
            until,
            dealer.curve,
            dealer.address,
            now,
            dealer.reached,
            dealer.failure,
            1 if old is None else old.count + 1,
        )

    def _key(self, peer: str, wait: DialFailure | None) -> str | None:
        if self._keyring is None:
            return ""
        curves = self._keyring.curves_of(peer)
        if wait is not None and wait.curve in curves:
            at = (curves.index(wait.curve) + 1) % len(curves)
            return curves[at]
        return curves[0] if curves else None

    def _make_room(self, now: float) -> bool:
        if len(self._open) < self._settings.max_dialled:
            return True
        oldest = next(iter(self._open.values()))
        if now < oldest.made_at + MIN_CONNECTION_AGE_S:
            return False
        self.drop(oldest.peer)
        return True

    def _set_options(self, dealer: Dealer) -> None:
        s, socket = self._settings, dealer.socket
        set_common_options(socket, s)
        socket.connect_timeout = int(s.connect_s * 1000)
        first, most = s.retry_s
        socket.reconnect_ivl = int(first * self._rng.uniform(0.5, 1.5) * 1000)
        socket.reconnect_ivl_max = int(most * 1000)
        if self._keyring is None:
            socket.routing_id = self._name.encode()
        else:
            key = self._keyring.current
            socket.curve_serverkey = bytes.fromhex(dealer.curve)
            socket.curve_publickey = bytes.fromhex(key.public.curve)
            socket.curve_secretkey = bytes.fromhex(key.curve)


def set_common_options(socket: zmq.Socket[bytes], settings: TransportSettings) -> None:
    """Set the options that all sockets of the transport share."""
    # No heartbeats of ZeroMQ's own (ZMQ_HEARTBEAT_IVL): when their timer fires for a connection
    # that has gone while its messages wait, it aborts the process (!_io_error, libzmq 4.3.5).
    # The kernel notices a host or link that is gone, and gossip a member that hangs.
    quiet = settings.keepalive_s
    socket.linger = 0
    socket.ipv6 = True
    socket.maxmsgsize = settings.max_message + CURVE_BYTES
    socket.sndhwm, socket.rcvhwm = settings.queue_out, settings.queue_in
    socket.handshake_ivl = int(settings.handshake_s * 1000)
    socket.tcp_keepalive, socket.tcp_keepalive_cnt = 1, 2
    socket.tcp_keepalive_idle = socket.tcp_keepalive_intvl = quiet
    socket.tcp_maxrt = 3 * quiet * 1000
