"""Asks hosts for their certificates, and answers those that ask, on the UDP port of the gossip.

A connection is made after the answer, so that each end accepts the other's key. Where none comes
(an older version, or a firewall) it is tried all the same.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from hostcc.coord.keys.certificates import Certificate, CertificateError
from hostcc.coord.keys.keyring import Keyring
from hostcc.coord.net import hello
from hostcc.coord.net.address import Address
from hostcc.coord.net.rate import TokenBucket
from hostcc.errors import HostccError
from hostcc.log import get_logger

log = get_logger("gossip")

MAX_ADDRESSES = 4096
"""Addresses remembered that were asked, that asked, or whose certificates were refused."""
MAX_DATAGRAMS_PER_TURN = 32
ANSWERS_PER_S = 400.0
"""Greetings answered a second: an answer takes two checks and a signature, some 0.3 ms."""
ANSWERS_PER_ADDRESS_S = 40.0
RETRY_S = (0.3, 8.0)
"""Seconds until an address is asked again: at first and at most; doubled each time."""
SILENT_ATTEMPTS = 3
"""Greetings without an answer after which a connection is tried all the same."""
REFUSED_S = 300.0
"""Seconds for which a refused certificate is shown after it was shown last."""
NONCE_AGE_S = 10.0

K = TypeVar("K")
V = TypeVar("V")
OnMet = Callable[[str, Address | None, bytes], None]
"""Handles (member, address at which it answered or None, its certificate)."""


@dataclass
class _Asked:
    """What is known of an address that was asked."""

    delay: float
    next_at: float
    count: int = 0
    answered_at: float = -1.0
    nonce: bytes = b""
    refused: str = ""
    """Why the host there refuses this host's certificate."""


class Greeter:
    """Greets addresses and answers greetings; without I/O but its one socket."""

    def __init__(
        self,
        keyring: Keyring,
        listen: Address,
        counters: Counter[str],
        clock: Callable[[], float],
        met: OnMet,
    ) -> None:
        """Raises HostccError when the port is taken."""
        self._keyring, self._counters, self._clock, self._met = keyring, counters, clock, met
        self._asked: OrderedDict[Address, _Asked] = OrderedDict()
        self._refused: OrderedDict[str, tuple[str, float]] = OrderedDict()
        self._rates: OrderedDict[str, TokenBucket] = OrderedDict()
        self._all = TokenBucket(ANSWERS_PER_S, ANSWERS_PER_S)
        self._socket = _bound(listen)
        asyncio.get_running_loop().add_reader(self._socket, self._read)

    def close(self) -> None:
        """Answer nobody any more."""
        asyncio.get_running_loop().remove_reader(self._socket)
        self._socket.close()

    def greet(self, address: Address) -> None:
        """Ask who is at an address, unless it was asked a moment ago."""
        now = self._clock()
        asked = self._asked.get(address)
        if asked is None:
            asked = self._asked[address] = _Asked(RETRY_S[0], now)
            _limit(self._asked)
        if now < asked.next_at:
            return
        asked.count += 1
        asked.nonce = os.urandom(hello.NONCE_BYTES)
        asked.next_at, asked.delay = now + asked.delay, min(2 * asked.delay, RETRY_S[1])
        self._counters["greetings"] += 1
        self._send(hello.greeting(self._keyring, asked.nonce), address)

    def ready(self, address: Address, failed_at: float) -> bool:
        """Return whether to connect to an address now; if not, it is greeted.

        `failed_at`: when a connection to it was given up last, after which it is asked anew.
        """
        asked = self._asked.get(address)
        if asked is not None and failed_at > asked.answered_at >= 0:
            asked.answered_at, asked.count, asked.delay = -1.0, 0, RETRY_S[0]
        if asked is not None and asked.answered_at >= 0:
            return True
        self.greet(address)
        return asked is not None and asked.count > SILENT_ATTEMPTS

    def refused(self, now: float) -> list[tuple[str, str]]:
        """Return (address, why) of certificates that were refused here lately."""
        return [(at, why) for at, (why, when) in self._refused.items() if now < when + REFUSED_S]

    def refusing(self) -> list[tuple[str, str]]:
        """Return (address, why) of hosts that refuse this host's certificate."""
        return [(str(at), one.refused) for at, one in self._asked.items() if one.refused]

    def _read(self) -> None:
        for _ in range(MAX_DATAGRAMS_PER_TURN):
            try:
                data, source = self._socket.recvfrom(2048)
            except OSError:  # nothing left, or an ICMP error of a datagram that was sent
                return
            try:
                self._take(data, source)
            except Exception as error:  # noqa: BLE001 - one datagram must not end the reading
                log.defect("greeting not handled", error)

    def _take(self, data: bytes, source: tuple[str, int]) -> None:
        now = self._clock()
        host = source[0].removeprefix("::ffff:")
        if not self._within_limits(host, now):
            self._counters["greetings dropped"] += 1
            return
        said = hello.parse(data)
        if isinstance(said, hello.Greeting):
            self._answer(said, host, source, now)
        elif said is not None:
            self._hear(said, host, now)
        else:
            self._counters["refused"] += 1

    def _answer(self, said: hello.Greeting, host: str, source: tuple[str, int], now: float) -> None:
        found, why = self._accepted(said, host, now)
        if found is not None:
            self._met(found.member.name, None, found.raw)
        self._send_raw(hello.reply(self._keyring, said.nonce, why), source)

    def _hear(self, said: hello.Reply, host: str, now: float) -> None:
        address = next((at for at, one in self._asked.items() if one.nonce == said.nonce), None)
        if address is None:
            self._counters["refused"] += 1
            return
        found, _ = self._accepted(said, host, now)
        if found is None and said.certificate:
            return
        asked = self._asked[address]
        asked.nonce, asked.answered_at, asked.count = b"", now, 0
        asked.refused = said.refused
        asked.delay = RETRY_S[1] if not said.refused else asked.delay
        if found is not None:
            self._met(found.member.name, address, found.raw)

    def _accepted(
        self, said: hello.Datagram, host: str, now: float
    ) -> tuple[Certificate | None, str]:
        try:
            return hello.accept(self._keyring, said), ""
        except CertificateError as error:
            self._counters["refused"] += 1
            self._refused.pop(host, None)
            self._refused[host] = str(error), now
            _limit(self._refused)
            return None, str(error)

    def _within_limits(self, host: str, now: float) -> bool:
        bucket = self._rates.get(host)
        if bucket is None:
            bucket = self._rates[host] = TokenBucket(ANSWERS_PER_ADDRESS_S, ANSWERS_PER_ADDRESS_S)
            _limit(self._rates)
        return bucket.take(1, now) and self._all.take(1, now)

    def _send(self, data: bytes, address: Address) -> None:
        v6 = self._socket.family == socket.AF_INET6
        host = f"::ffff:{address.host}" if v6 and not address.is_v6 else address.host
        self._send_raw(data, (host, address.port))

    def _send_raw(self, data: bytes, to: tuple[str, int]) -> None:
        try:
            self._socket.sendto(data, to)
        except OSError:  # no route, or no room: it is asked again
            self._counters["greetings dropped"] += 1


def ignore_met(_member: str, _address: Address | None, _certificate: bytes) -> None:
    """Do nothing: an OnMet for where nobody asks."""


def _limit(known: OrderedDict[K, V]) -> None:
    if len(known) > MAX_ADDRESSES:
        known.popitem(last=False)


def _bound(listen: Address) -> socket.socket:
    family = socket.AF_INET6 if listen.is_v6 else socket.AF_INET
    found = socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    try:
        if listen.is_v6:
            found.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        found.bind((listen.host, listen.port))
    except OSError as error:
        found.close()
        raise HostccError(f"gossip: {listen}: UDP: {error.strerror}") from None
    return found
