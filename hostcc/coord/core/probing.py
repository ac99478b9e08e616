"""Failure detection: probe directly, then through others, then accuse (SWIM, section 4.1).

A ping is repeated every round until it is answered, so that members do not accuse each other in a
network that loses every fifth message.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from hostcc.coord.core.health import Health
from hostcc.coord.core.membership import Membership
from hostcc.coord.core.message import NONCE_MAX, Probe
from hostcc.coord.core.settings import Settings

MAX_RELAYS = 256
"""Probes for other members that wait for an answer."""
MAX_RELAYS_EACH = 32
"""The same for one requester, so that nobody can take up all of them."""


@dataclass
class _Attempt:
    target: str
    nonce: int
    started: float
    asked: bool = False
    """Whether helpers were asked to probe."""
    spoiled: bool = False
    """Whether this host missed rounds meanwhile, so that silence proves nothing."""


@dataclass(frozen=True)
class _Relay:
    requester: str
    nonce: int
    due: float


class Prober:
    """Runs one probe of its own at a time, and probes for others."""

    def __init__(
        self, members: Membership, health: Health, settings: Settings, rng: Random
    ) -> None:
        self._members = members
        self._health = health
        self._settings = settings
        self._rng = rng
        self._attempt: _Attempt | None = None
        self._next_at = rng.uniform(0, settings.probe_s)
        self._position = 0
        self._relays: dict[int, _Relay] = {}

    @property
    def due(self) -> float:
        """Experienced seconds at which it needs a round; 0 while an answer is awaited.

        Probes for others need no rounds: their answers are passed on as they come.
        """
        return 0.0 if self._attempt is not None else self._next_at

    def missed_rounds(self) -> None:
        """Record that this host was away, so that the running probe accuses nobody."""
        if self._attempt is not None:
            self._attempt.spoiled = True

    def tick(
        self, now: float, neighbours: tuple[str, ...]
    ) -> tuple[list[tuple[str, int]], list[tuple[str, Probe]], str]:
        """Return (pings, requests to helpers, member to accuse or "")."""
        for nonce in [nonce for nonce, relay in self._relays.items() if relay.due <= now]:
            del self._relays[nonce]
        attempt = self._attempt
        if attempt is None:
            return self._begin(now, neighbours), [], ""
        waited = now - attempt.started
        patience = self._health.patience
        if waited >= self._settings.probe_s * patience:
            return [], [], self._fail(attempt)
        if waited >= self._settings.ack_s * patience and not attempt.asked:
            attempt.asked = True
            ask = Probe(attempt.target, attempt.nonce)
            requests = [(helper, ask) for helper in self._helpers(attempt.target)]
            return [(attempt.target, attempt.nonce)], requests, ""
        return [(attempt.target, attempt.nonce)], [], ""

    def relay(self, requester: str, probe: Probe, now: float) -> int | None:
        """Return the nonce with which to ping a target for another member; None: too many are
        pending."""
        same = sum(relay.requester == requester for relay in self._relays.values())
        if len(self._relays) >= MAX_RELAYS or same >= MAX_RELAYS_EACH:
            return None
        nonce = self._nonce()
        self._relays[nonce] = _Relay(requester, probe.nonce, now + 10 * self._settings.probe_s)
        return nonce

    def acknowledge(self, nonce: int) -> tuple[str, int] | None:
        """Process an acknowledgement; return (requester, its nonce) if it is for somebody else."""
        attempt = self._attempt
        if attempt is not None and attempt.nonce == nonce:
            self._attempt = None
            self._health.better()
            return None
        relay = self._relays.pop(nonce, None)
        return None if relay is None else (relay.requester, relay.nonce)

    def _begin(self, now: float, neighbours: tuple[str, ...]) -> list[tuple[str, int]]:
        if now < self._next_at:
            return []
        self._next_at = now + self._settings.probe_s
        target = self._choose(neighbours)
        if not target:
            return []
        self._attempt = _Attempt(target, self._nonce(), now)
        return [(target, self._attempt.nonce)]

    def _choose(self, neighbours: tuple[str, ...]) -> str:
        # Every other time a neighbour, whose death matters most; else the next in turn.
        if neighbours and self._rng.random() < 0.5:
            target = self._rng.choice(neighbours)
            if not self._members.is_dead(target):
                return target
        others = self._members.others
        if not others:
            return ""
        if self._position >= len(others):
            self._position = 0
            self._rng.shuffle(others)
        self._position += 1
        return others[self._position - 1]

    def _fail(self, attempt: _Attempt) -> str:
        self._attempt = None
        if attempt.spoiled or self._members.is_dead(attempt.target):
            return ""
        self._health.worse()
        return attempt.target

    def _helpers(self, target: str) -> Iterator[str]:
        others = self._members.others
        for helper in self._rng.sample(others, min(self._settings.helpers, len(others))):
            if helper != target:
                yield helper

    def _nonce(self) -> int:
        return self._rng.randrange(1, NONCE_MAX)
