"""Why this host and others do not reach each other: a reason, and words that say what to do.

Seeds are checked for every reason. Other members that are not dead are checked for key problems
only: membership covers the rest.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from enum import StrEnum

from hostcc.answers.gossip import Trouble
from hostcc.coord.core.node import Node
from hostcc.coord.keys.certificates import date
from hostcc.coord.keys.identity import fingerprint
from hostcc.coord.keys.keyring import Keyring
from hostcc.coord.net.carrier import Carrier
from hostcc.coord.net.connect_attempt import ConnectAttempt, errno_text
from hostcc.coord.net.dealers import DialFailure
from hostcc.coord.net.monitor import HandshakeFailure
from hostcc.coord.net.rate import LINES_PER_MINUTE, TokenBucket
from hostcc.coord.net.seeds import Seeds
from hostcc.log import get_logger

log = get_logger("gossip")

CHECK_INTERVAL_S = 1.0
"""Seconds between checks."""
ANSWER_WITHIN_S = 5.0
"""Seconds after the start within which certificates of seeds are still expected."""
ENDS_SOON_S = 7 * 86400.0
"""Seconds before the end of this host's certificate from which it is a trouble."""
MAX_TROUBLES = 64
NO_KEY = "its key is not on this host's allow-list, or has ended: run `hostcc keys allow` here"
UNKNOWN_KEY = "its key {key} is not on this host's allow-list: run `hostcc keys allow` here, if it "
UNKNOWN_KEY += "may take part"
UNCERTIFIED = "no certificate of it yet: its agent does not answer on UDP port {port}, or has none"
OTHER_KEY = "no handshake: it has no keys, another one than {known} on this host's allow-list, or "
OTHER_KEY += "was too slow"


class Reason(StrEnum):
    """What keeps two members apart."""

    UNRESOLVED = "unresolved"
    """A seed's host name has no address."""
    UNREACHABLE = "unreachable"
    """No TCP connection can be established."""
    HANDSHAKE = "handshake"
    """The TCP connection is established, but the handshake fails."""
    NOT_ACCEPTED = "not_accepted"
    """The other member refuses this host's key."""
    NOT_ALLOWED = "not_allowed"
    """This host's allow-list has no key of the other member."""
    REFUSED = "refused"
    """A connection came with a key that is not on this host's allow-list."""
    CERTIFICATE = "certificate"
    """A certificate was shown here that is refused, or this host's own one ends soon."""
    AWAY = "away"
    """The process that holds this host's connections has ended and will be started again."""


class Troubles:
    """The present troubles; logs each once when it begins and once when it ends."""

    def __init__(
        self, seeds: Seeds, transport: Carrier, wall: Callable[[], float] = time.time
    ) -> None:
        self.found: tuple[Trouble, ...] = ()
        self._seeds, self._transport = seeds, transport
        self._due, self._began = -math.inf, math.inf
        self._wall = wall
        self._attempts: dict[str, tuple[float, ConnectAttempt]] = {}
        """Seed -> time of its failure, and the connection attempt to find out why."""
        self._answers: dict[str, tuple[float, int]] = {}
        """Seed -> time of its failure, and the errno found."""
        self._told: set[tuple[str, str]] = set()
        self._lines = TokenBucket(LINES_PER_MINUTE / 60, LINES_PER_MINUTE)

    def update(self, node: Node, now: float) -> None:
        """Check again if it is due; `now`: monotonic seconds."""
        if now < self._due:
            return
        self._due = now + CHECK_INTERVAL_S
        self._began = min(self._began, now)
        found = [*self._of_seeds(node.name, now), *self._of_members(node)]
        found += self._of_certificates(now)
        found += [
            Trouble(Reason.REFUSED, address, self._refused_key(curve))
            for address, curve in self._transport.refused_keys(now)
        ]
        process = self._transport.process
        if process is not None and process.pid is None:
            text = f"{process.reason}; it is started again"
            found.insert(0, Trouble(Reason.AWAY, "gossip process", text))
        self.found = tuple(found[:MAX_TROUBLES])
        self._tell(now)

    def close(self) -> None:
        """Abandon connection attempts."""
        for _, attempt in self._attempts.values():
            attempt.close()
        self._attempts.clear()

    def _of_seeds(self, own: str, now: float) -> Iterator[Trouble]:
        for name in self._seeds:
            if name == own:
                continue
            who = f"seed {name}@{self._seeds.configured(name)}"
            unresolved = self._seeds.unresolved(name)
            failed = self._transport.failure(name)
            if not self._transport.allowed(name) and not (self._certifies and unresolved):
                text = NO_KEY
                if self._certifies:
                    text = UNCERTIFIED.format(port=self._seeds.configured(name).port)
                if not self._certifies or now >= self._began + ANSWER_WITHIN_S:
                    yield Trouble(Reason.NOT_ALLOWED, who, text)
            elif unresolved and self._seeds.address(name) is None:
                yield Trouble(Reason.UNRESOLVED, who, f"its name has no address ({unresolved})")
            elif failed is not None and (failed.reached or failed.failure is not None):
                yield self._handshake_trouble(who, name, failed)
            elif failed is not None and (code := self._answer(name, failed, now)):
                yield Trouble(Reason.UNREACHABLE, who, f"no answer ({errno_text(code)})")

    def _refused_key(self, curve: str) -> str:
        keyring = self._transport.keyring
        why = keyring.refusal(curve) if keyring is not None else ""
        return why or UNKNOWN_KEY.format(key=fingerprint(curve))

    def _of_certificates(self, now: float) -> Iterator[Trouble]:
        keyring = self._transport.keyring
        if now >= self._began + ANSWER_WITHIN_S:
            for name in self._seeds.dns:
                text = self._seeds.dns_failure(name)
                if not self._certifies:
                    text = "expected an authority (hostcc keys add) and no allow-list alone"
                if text:
                    yield Trouble(Reason.UNRESOLVED, f"seed dns:{name}", text)
        for address, why in self._transport.refused_certificates(now):
            yield Trouble(Reason.CERTIFICATE, f"address {address}", why)
        for address, why in self._transport.refusing():
            text = f"it does not accept this host's certificate: {why}"
            yield Trouble(Reason.NOT_ACCEPTED, f"host at {address}", text)
        own = keyring.certificate if keyring is not None else None
        if own is not None and self._wall() > own.ends - ENDS_SOON_S:
            text = f"serial {own.serial} ends at {date(own.ends)}: have it signed again"
            yield Trouble(Reason.CERTIFICATE, "this host's certificate", text)

    @property
    def _certifies(self) -> bool:
        keyring = self._transport.keyring
        return keyring is not None and keyring.certifies

    def _of_members(self, node: Node) -> Iterator[Trouble]:
        seeds = set(self._seeds)
        for name in self._transport.failures():
            if name in seeds or node.members.is_dead(name) or node.store.incarnation(name) < 0:
                continue
            failed = self._transport.failure(name)
            if failed is not None and failed.failure is not None:
                yield self._handshake_trouble(f"member {name}@{failed.address}", name, failed)

    def _handshake_trouble(self, who: str, name: str, failed: DialFailure) -> Trouble:
        keyring = self._transport.keyring
        if failed.failure is HandshakeFailure.AUTH:
            key = keyring.current.public.fingerprint if keyring is not None else ""
            text = f"it does not accept this host's key {key}: run `hostcc keys allow` there"
            return Trouble(Reason.NOT_ACCEPTED, who, text)
        if failed.failure is None:
            text = "it takes connections, and does not speak as a member does"
        elif keyring is None:
            text = "no handshake: it has keys and this host has none, or was too slow"
        elif failed.failure is HandshakeFailure.MECHANISM:
            text = "no handshake: it has no keys, and this host has"
        else:
            text = OTHER_KEY.format(known=_known(keyring, name))
        return Trouble(Reason.HANDSHAKE, who, text)

    def _answer(self, name: str, failed: DialFailure, now: float) -> int:
        # The errno of a connection attempt to a failed seed; 0: not known yet, or it succeeded.
        at, code = self._answers.get(name, (-math.inf, 0))
        if at == failed.at:
            return code
        try:
            if name not in self._attempts:
                self._attempts[name] = failed.at, ConnectAttempt(failed.address, now)
        except OSError:  # no descriptors: the next look tries again
            return code
        began, attempt = self._attempts[name]
        found = attempt.outcome(now)
        if found is None:
            return code  # that of the previous failure
        del self._attempts[name]
        self._answers[name] = began, found
        return found

    def _tell(self, now: float) -> None:
        there = {(one.reason, one.who) for one in self.found}
        for one in self.found:
            told = (one.reason, one.who) in self._told
            if not told and self._lines.take(1, now):
                log.warning("gossip", what=str(one.reason), who=one.who, text=one.text)
                self._told.add((one.reason, one.who))
        for reason, who in self._told - there:
            log.info("gossip", what=str(reason), who=who, text="no longer so")
        self._told &= there


def _known(keyring: Keyring, name: str) -> str:
    return " and ".join(map(fingerprint, keyring.curves_of(name))) or "any"
