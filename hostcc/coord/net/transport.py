"""Moves messages between members over ZeroMQ: one ROUTER, few DEALERs, CURVE.

The sender of a message follows from the key of its connection, never from its content. Invalid or
excessive messages are dropped and counted; gossip repairs the loss. Without keys a member is
believed to be who it claims, which suits a single host or a trusted network.
"""

from __future__ import annotations

import math
import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Literal

import zmq

from hostcc.answers.gossip import ProcessStatus
from hostcc.coord.keys.keyring import Keyring
from hostcc.coord.member_name import is_member_name
from hostcc.coord.net.address import Address
from hostcc.coord.net.connections import Connection
from hostcc.coord.net.curve_auth import CurveAuthenticator
from hostcc.coord.net.dealers import Dealers, DialFailure
from hostcc.coord.net.greeter import Greeter, OnMet, ignore_met
from hostcc.coord.net.monitor import HandshakeFailure
from hostcc.coord.net.rate import FATAL_STRIKES, Offenders, PeerLimits, TokenBucket
from hostcc.coord.net.router import Router, user_of
from hostcc.coord.net.transport_settings import TransportSettings
from hostcc.errors import HostccError
from hostcc.log import get_logger

log = get_logger("gossip")

MAX_REFUSED = 64
"""Addresses remembered from which an unknown key came."""
REFUSED_S = 300.0
"""Seconds for which a refused key is shown after its last attempt."""

OnMessage = Callable[[str, bytes], None]
"""Handles (authenticated peer, its message)."""


@dataclass(frozen=True)
class Link:
    """State of the connections to one peer, for display."""

    dialled: Literal["", "up", "connecting"]
    """State of this host's connection to the peer; empty: there is none."""
    accepted: bool
    """Whether the peer has a connection to this host that carried messages."""
    heard_s: float | None
    """Seconds since its last message; None: there was none."""
    rtt_s: float | None
    """The kernel's smoothed round-trip time of the connection."""
    shut_out: bool


class Transport:
    """Sockets of one member, all in one asyncio loop."""

    def __init__(
        self,
        name: str,
        listen: Address,
        keyring: Keyring | None,
        on_message: OnMessage,
        *,
        settings: TransportSettings | None = None,
        insecure: bool = False,
        clock: Callable[[], float] = time.monotonic,
        rng: Random | None = None,
    ) -> None:
        """Raises HostccError when it would be open to strangers without `insecure`."""
        check_listen(name, listen, keyring, insecure=insecure)
        self.name, self.keyring = name, keyring
        self.settings = settings or TransportSettings()
        self.counters: Counter[str] = Counter()
        """Messages and bytes sent and received; drops and refusals by reason."""
        self.offenders = Offenders(log)
        self.on_met: OnMet = ignore_met
        self._greeter: Greeter | None = None
        """None while no authority is trusted here."""
        self._listen, self._on_message = listen, on_message
        self._clock, self._rng = clock, rng or Random()
        self._limits = PeerLimits(self.settings)
        self._all = TokenBucket(self.settings.all_per_s, self.settings.all_burst)
        self._heard: dict[str, float] = {}
        self._refused_keys: OrderedDict[str, tuple[str, float]] = OrderedDict()
        """Address -> the unknown CURVE key that came from there last, and when."""
        self._context: zmq.Context[zmq.Socket[bytes]] | None = None
        self._authenticator: CurveAuthenticator | None = None
        self._open = False
        self._router: Router
        self._dealers: Dealers

    @property
    def insecure(self) -> bool:
        """Whether anybody who reaches the port may take part."""
        return self.keyring is None

    @property
    def address(self) -> Address:
        """Address that it listens on, with the port that it was given."""
        return self._router.address

    @property
    def process(self) -> ProcessStatus | None:
        """None: the sockets are in this process."""
        return None

    async def start(self) -> None:
        """Begin to listen. Raises HostccError when the address cannot be taken."""
        self._context = zmq.Context()
        self._context.set(zmq.MAX_SOCKETS, 4 * self.settings.max_dialled + 64)
        self._dealers = Dealers(
            self._context, self.name, self.keyring, self.settings, self._from_dealer, self._rng
        )
        try:
            if self.keyring is not None:
                self._authenticator = CurveAuthenticator(self._context, self._admit)
            self._router = Router(
                self._context,
                self._listen,
                self.keyring,
                self.settings,
                self._from_router,
                self._refused,
                self._clock,
            )
        except BaseException:
            self._close_context()
            raise
        self._open = True
        try:
            self._follow_authorities()
        except HostccError:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Close every connection; queued messages are lost."""
        if self._open:
            self._open = False
            if self._greeter is not None:
                self._greeter.close()
                self._greeter = None
            self._dealers.close()
            self._router.close()
            self._close_context()

    def send(self, peer: str, address: Address | None, payload: bytes) -> bool:
        """Send a message to a member, connecting to `address` if there is no connection yet.

        Returns False when it was dropped: queue full, no route or not allowed. True does not mean
        that it will arrive.
        """
        why = self._send(peer, address, payload, self._clock())
        if why:
            self.counters[f"dropped: {why}"] += 1
            return False
        self.counters["sent"] += 1
        self.counters["bytes sent"] += len(payload)
        return True

    def offence(self, peer: str, reason: str, strikes: float = 1.0) -> None:
        """Count a protocol violation; logged at a limited rate, the peer is finally shut out."""
        self.counters["refused"] += 1
        if self.offenders.note(peer, reason, self._clock(), strikes):
            self._end_connections(peer)

    def hang_up(self, peer: str) -> None:
        """Close this host's connection to a peer; the next message opens a new one."""
        self._dealers.drop(peer)

    def link(self, peer: str) -> Link:
        """Return the state of the connections to a peer."""
        now = self._clock()
        dealer, route = self._dealers.get(peer), self._router.connection_of(peer)
        heard = self._heard.get(peer)
        rtts = [c.rtt_s for c in (dealer.connection if dealer else None, route) if c is not None]
        return Link(
            dialled="" if dealer is None else "up" if dealer.up else "connecting",
            accepted=route is not None,
            heard_s=None if heard is None else now - heard,
            rtt_s=next((rtt for rtt in rtts if rtt is not None), None),
            shut_out=self.offenders.shut_out(peer, now),
        )

    def known(self) -> list[str]:
        """Return the peers about which `link` has something to say."""
        dialled = [dealer.peer for dealer in self._dealers.all()]
        out = self.offenders.out(self._clock())
        return list(dict.fromkeys((*dialled, *self._router.peers(), *out)))

    def allowed(self, peer: str) -> bool:
        """Return whether there is a key with which to connect to a peer."""
        return self.keyring is None or bool(self.keyring.curves_of(peer))

    def failure(self, peer: str) -> DialFailure | None:
        """Return why a peer could not be reached with any of its keys; None: reached or heard
        since."""
        failed = self._dealers.failure(peer)
        if failed is None or self._heard.get(peer, -math.inf) > failed.at:
            return None
        least = 1 if self.keyring is None else len(self.keyring.curves_of(peer))
        if failed.failure is HandshakeFailure.BROKEN:
            least += 1  # it may just have been stopped
        return failed if failed.count >= least else None

    def failures(self) -> list[str]:
        """Return the peers that could not be reached; some may have been heard since."""
        return self._dealers.failed()

    def refused_keys(self, now: float) -> list[tuple[str, str]]:
        """Return (address, CURVE key in hexadecimal) of recently refused connections."""
        return [
            (address, curve)
            for address, (curve, at) in self._refused_keys.items()
            if now < at + REFUSED_S
            and self.keyring is not None
            and self.keyring.member_of(curve) is None
        ]

    def greet(self, address: Address) -> None:
        """Ask who is at an address; `on_met` is called with the answer."""
        if self._greeter is not None:
            self._greeter.greet(address)

    def learn(self, raw: list[bytes]) -> None:
        """Do nothing: the agent's keyring is this one."""

    def refused_certificates(self, now: float) -> list[tuple[str, str]]:
        """Return (address, why) of certificates that were refused here lately."""
        return self._greeter.refused(now) if self._greeter is not None else []

    def refusing(self) -> list[tuple[str, str]]:
        """Return (address, why) of hosts that refuse this host's certificate."""
        return self._greeter.refusing() if self._greeter is not None else []

    def connections(self) -> tuple[int, int]:
        """Return the number of open connections: (dialled, accepted)."""
        return sum(dealer.up for dealer in self._dealers.all()), len(self._router.connections)

    # Sending.

    def _send(self, peer: str, address: Address | None, payload: bytes, now: float) -> str:
        if len(payload) > self.settings.max_message:
            return "too long"
        if self.offenders.shut_out(peer, now):
            return "shut out"
        dealer = self._dealers.get(peer)
        accepted = self._key_is_of(peer, self._router.connection_of(peer))
        # Of two connections both ends choose the same one, so that the other becomes idle.
        if dealer is not None and dealer.up and not (accepted and peer < self.name):
            return "" if self._dealers.send(peer, payload, now) else "queue full"
        if accepted:
            outcome = self._router.send(peer, payload)
            if outcome is not None:
                return outcome
        if dealer is None:
            if address is None:
                return "no address"
            if not self._greeted(peer, address):
                return "certificates first"
            why = self._dealers.dial(peer, address, now)
            if why:
                return why
        return "" if self._dealers.send(peer, payload, now) else "queue full"

    def _greeted(self, peer: str, address: Address) -> bool:
        # Whether both ends know each other's certificate, or need none.
        if self._greeter is None:
            return True
        failed = self._dealers.failure(peer)
        return self._greeter.ready(address, -math.inf if failed is None else failed.at)

    def _key_is_of(self, peer: str, connection: Connection | None) -> bool:
        if connection is None:
            return False
        return self.keyring is None or self.keyring.member_of(connection.curve) == peer

    # Receiving.

    def _admit(self, curve: str, address: str) -> bool:
        assert self.keyring is not None
        member = self.keyring.member_of(curve)
        if member is None:
            self._refuse_key(address, curve)
            return False
        return not self.offenders.shut_out(member, self._clock())

    def _refuse_key(self, address: str, curve: str) -> None:
        self.counters["refused"] += 1
        self._refused_keys.pop(address, None)
        if len(self._refused_keys) >= MAX_REFUSED:
            self._refused_keys.popitem(last=False)
        self._refused_keys[address] = curve, self._clock()

    def _refused(self, address: str, reason: str) -> None:
        self.counters["refused"] += 1
        self.offenders.note(f"address {address}", reason, self._clock(), 0.0)

    def _from_router(
        self, identity: bytes, frame: zmq.Frame, connection: Connection | None
    ) -> float:
        if self.keyring is None:
            peer = identity.decode(errors="replace")
            if not is_member_name(peer) or peer == self.name:
                return self._stranger(connection, "expected a member's name")
            curve = ""
        else:
            curve = user_of(frame)
            found = self.keyring.member_of(curve)
            if found is None or found == self.name:
                return self._stranger(connection, "its key is no longer on the allow-list")
            if len(identity) != 5 or identity[0]:
                self.offence(found, "expected no routing id of its own")
                return 0.0
            peer = found
        if connection is not None:
            if not connection.peer and not self._limits.connect(peer, self._clock()):
                self.offence(peer, "it connects again and again")
            self._router.set_peer(peer, identity, connection, curve)
        return self._take(peer, frame, connection.cut if connection else _nothing)

    def _from_dealer(self, peer: str, socket: zmq.Socket[bytes]) -> float:
        dealer = self._dealers.get(peer)
        frame = socket.recv(zmq.NOBLOCK, copy=False)
        if dealer is None or (
            self.keyring is not None and self.keyring.member_of(dealer.curve) != peer
        ):
            self._dealers.drop(peer)
            return 0.0
        self._dealers.heard(peer)
        return self._take(peer, frame, lambda: self._dealers.drop(peer))

    def _take(self, peer: str, frame: zmq.Frame, cut: Callable[[], None]) -> float:
        now = self._clock()
        size = len(frame.buffer)
        if self.offenders.shut_out(peer, now):
            self.counters["dropped: shut out"] += 1
            cut()
            return 0.0
        if frame.more or size > self.settings.max_message:
            expected = f"expected messages of one part and {self.settings.max_message} bytes"
            self.offence(peer, expected, FATAL_STRIKES)
            cut()
            return 0.0
        if not self._limits.take(peer, size, now):
            self.counters["dropped: too much"] += 1
            self.offence(peer, "more than its rate limit", 0.05)
            return 0.0
        self._all.take(1, now)
        self.counters["received"] += 1
        self.counters["bytes received"] += size
        self._heard[peer] = now
        self._on_message(peer, frame.bytes)
        return self._all.wait(now)

    def _stranger(self, connection: Connection | None, reason: str) -> float:
        address = connection.remote[0] if connection is not None else "unknown"
        self._refused(address, reason)
        if connection is not None:
            connection.cut()
        return 0.0

    # Periodic checks.

    def tick(self) -> None:
        """Check keys and connections; to be called at least every second while open."""
        try:
            self._check_connections(self._clock())
        except (OSError, HostccError, zmq.ZMQError) as error:
            log.failure("gossip transport", reason=str(error))

    def _check_connections(self, now: float) -> None:
        if self.keyring is not None:
            self._follow_keys(self.keyring, now)
        self.counters["handshakes failed"] += self._dealers.tick(now)
        floods = self._router.tick(now)
        for dealer in self._dealers.all():
            if dealer.connection is not None and not dealer.connection.within_limit(now):
                floods.append(dealer.connection)
        for connection in floods:
            connection.cut()
            if connection.peer:
                self.offence(connection.peer, "a flood of bytes", FATAL_STRIKES)
            else:
                self._refused(connection.remote[0], "a flood of bytes")
        if len(self._heard) > 2 * self.settings.max_accepted:
            oldest = sorted(self._heard, key=lambda peer: self._heard[peer])
            for peer in oldest[: len(oldest) // 2]:
                del self._heard[peer]

    def _follow_keys(self, keyring: Keyring, now: float) -> None:
        before = keyring.current
        if keyring.tick(now):
            self._dealers.retry_now()
        self._follow_authorities()
        if keyring.current.public.curve != before.public.curve:
            self._router.rekey()
            self._dealers.close()
        for connection in self._router.connections:
            if connection.curve and keyring.member_of(connection.curve) != connection.peer:
                connection.cut()
        for dealer in self._dealers.all():
            if keyring.member_of(dealer.curve) != dealer.peer:
                self._dealers.drop(dealer.peer)

    def _follow_authorities(self) -> None:
        wanted = self.keyring is not None and self.keyring.certifies
        if wanted and self._greeter is None:
            assert self.keyring is not None
            self._greeter = Greeter(
                self.keyring, self.address, self.counters, self._clock, self._meet
            )
        elif not wanted and self._greeter is not None:
            self._greeter.close()
            self._greeter = None

    def _meet(self, member: str, address: Address | None, certificate: bytes) -> None:
        self.on_met(member, address, certificate)

    def _end_connections(self, peer: str) -> None:
        self._dealers.drop(peer)
        for connection in self._router.connections:
            if connection.peer == peer:
                connection.cut()

    def _close_context(self) -> None:
        if self._authenticator is not None:
            self._authenticator.close()
            self._authenticator = None
        if self._context is not None:
            self._context.destroy(linger=0)
            self._context = None


def check_listen(name: str, listen: Address, keyring: Keyring | None, *, insecure: bool) -> None:
    """Check where to listen, and with whose keys.

    Raises HostccError when that is open to strangers without `insecure`, or when the keys are
    another member's.
    """
    if keyring is None and not (listen.is_loopback or insecure):
        raise HostccError(
            f"gossip: {listen}: expected a loopback address without keys: make some "
            "(hostcc keys new), or set insecure = true where everybody may be trusted"
        )
    if keyring is not None and keyring.name != name:
        raise HostccError(f"gossip: expected keys of {name}, got those of {keyring.name}")


def _nothing() -> None:
    pass  # in place of a connection's `cut` when there is no connection
