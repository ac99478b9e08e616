"""Connections that this host has made to others: a few, each kept while it is of use.

A member that changes its keys is tried with one and then the other.  Failures are followed
by a wait that doubles and differs from host to host, so that a thousand hosts do not return
to a restarted one at the same moment.
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
from hostcc.coord.net.monitor import Failure, Monitor
from hostcc.coord.net.rate import MAX_KNOWN, TokenBucket
from hostcc.coord.net.socket_reader import SocketReader
from hostcc.coord.net.transport_settings import TransportSettings

CURVE_BYTES = 33
"""Around an encrypted message: its name, nonce, authenticator and flags (ZeroMQ RFC 26)."""
YOUNG_S = 1.0
"""A connection just made does not have to make room: its answer is still to come."""

Received = Callable[[str, "zmq.Socket[bytes]"], float]
"""(Peer, its socket with a message) -> seconds to leave the socket alone."""


@dataclass
class Wait:
    """What is remembered of a peer that could not be reached."""

    delay: float
    until: float
    curve: str
    """The key that it was tried with; another one has its turn first."""
    address: Address
    at: float
    """When it was given up last."""
    reached: bool
    """Whether there was a connection."""
    failure: Failure | None
    """How the handshake failed; None: there was none."""
    count: int = 1
    """How often in a row."""


class Dealer:
    """One connection to one peer; ZeroMQ makes it anew when it breaks, for a while."""

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
        self.failure: Failure | None = None
        """How the last handshake failed; None: it did not."""
        self.reached = False
        """Whether there was a connection that has not become one of members."""
        self.connection: Connection | None = None
        self.made_at = self.used_at = self.down_since = now
        self._settings = settings
        self.socket = context.socket(zmq.DEALER)
        self._take = take
        self._monitor = Monitor(context, self.socket, self._opened, self._closed, self._ready)
        self._pump: SocketReader | None = None

    def connect(self) -> None:
        """Once the socket has its options."""
        self._pump = SocketReader(self.socket, self._take)
        self.socket.connect(self.address.endpoint)

    def send(self, payload: bytes, now: float) -> bool:
        """Whether there was room for it."""
        self.used_at = now
        try:
            self.socket.send(payload, zmq.NOBLOCK)
        except zmq.Again:
            return False
        finally:
            if self._pump is not None:
                self._pump.wake()
        return True

    def close(self) -> None:
        """End it; what waits to be sent is lost."""
        self._monitor.close()
        if self._pump is not None:
            self._pump.close()
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

    def _closed(self, _: int, failure: Failure | None) -> None:
        self.reached = self.reached and not self.up  # it was a member, and left
        self.up, self.connection = False, None
        self.failure = failure


class Dealers:
    """The connections to others, by peer; the one that was used last is the last."""

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
        self._waits: OrderedDict[str, Wait] = OrderedDict()
        self.dialled = 0
        """Connections made since the start."""

    def __len__(self) -> int:
        return len(self._open)

    def get(self, peer: str) -> Dealer | None:
        """The connection to a peer, which need not be up."""
        return self._open.get(peer)

    def all(self) -> list[Dealer]:
        """All connections."""
        return list(self._open.values())

    def send(self, peer: str, payload: bytes, now: float) -> bool:
        """Send over the connection that there is; whether there was room."""
        self._open.move_to_end(peer)
        return self._open[peer].send(payload, now)

    def dial(self, peer: str, address: Address, now: float) -> str:
        """Make a connection; empty, or why not: "waiting", "not allowed", "busy"."""
        wait = self._waits.get(peer)
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
        """A message came over the connection to a peer: it is well."""
        self._waits.pop(peer, None)

    def drop(self, peer: str) -> None:
        """End the connection to a peer, if there is one."""
        dealer = self._open.pop(peer, None)
        if dealer is not None:
            dealer.close()

    def close(self) -> None:
        """End all of them."""
        for peer in list(self._open):
            self.drop(peer)

    def forget_waits(self) -> None:
        """Keys have changed: who could not be reached may be reached now."""
        for wait in self._waits.values():
            wait.until, wait.delay, wait.curve = 0.0, self._settings.retry_s[0] / 2, ""

    def failed(self) -> list[str]:
        """Peers that could not be reached when they were dialled last."""
        return list(self._waits)

    def failure(self, peer: str) -> Wait | None:
        """What is remembered of one of them."""
        return self._waits.get(peer)

    def tick(self, now: float) -> int:
        """Give up what failed or is of no use; how many handshakes have failed."""
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
        old = self._waits.pop(dealer.peer, None)
        delay = min(most, 2 * old.delay) if old is not None else first
        until = now + delay * self._rng.uniform(0.5, 1.5)
        if len(self._waits) >= MAX_KNOWN:
            self._waits.popitem(last=False)
        self._waits[dealer.peer] = Wait(
            delay,
            until,
            dealer.curve,
            dealer.address,
            now,
            dealer.reached,
            dealer.failure,
            1 if old is None else old.count + 1,
        )

    def _key(self, peer: str, wait: Wait | None) -> str | None:
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
        if now < oldest.made_at + YOUNG_S:
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
    """What every socket of the transport has, whichever side it is on."""
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
