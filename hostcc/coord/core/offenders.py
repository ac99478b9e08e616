"""Peers that break the protocol: logged at a limited rate, and ignored for a while."""

from __future__ import annotations

from dataclasses import dataclass

from hostcc.coord.core.budget import NamedBudgets
from hostcc.coord.core.settings import Settings

MAX_OFFENDERS = 1024
MAX_EVENTS = 1000
RELAY_PER_S, RELAY_BURST = 0.5, 30.0
"""Events about others that one relay causes, per second and at once: it may make up names."""


@dataclass(frozen=True)
class Event:
    """Something that may interest an operator."""

    at: float
    """Reading of the clock that the core was given, in seconds."""
    what: str
    """Kind of event: "offender", "refused", "name" and so on."""
    who: str
    text: str


@dataclass
class _Record:
    first: float
    count: int = 0
    until: float = 0.0


class Offenders:
    """Strikes by peer, and events, each kind at most once per peer and quarantine period."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._records: dict[str, _Record] = {}
        self._reported: dict[tuple[str, str], float] = {}
        self._relays = NamedBudgets(RELAY_PER_S, RELAY_BURST)
        self.events: list[Event] = []
        """For the caller to take; beyond MAX_EVENTS the oldest are dropped."""

    def accepts_from(self, peer: str, now: float) -> bool:
        """Return whether messages of a peer are accepted at `now` (experienced seconds)."""
        record = self._records.get(peer)
        return record is None or now >= record.until

    def strike(self, peer: str, reason: str, now: float, at: float) -> None:
        """Count a violation. `now` is experienced seconds; `at` is the event's time stamp."""
        record = self._records.get(peer)
        if record is None or now >= record.first + self._settings.quarantine_s:
            if len(self._records) >= MAX_OFFENDERS:
                del self._records[next(iter(self._records))]
            self._records.pop(peer, None)
            record = self._records[peer] = _Record(now)
        record.count += 1
        if record.count >= self._settings.strikes:
            record.until = now + self._settings.quarantine_s
        self.report_once("offender", peer, reason, now, at)

    def report_once(
        self, what: str, who: str, text: str, now: float, at: float, relay: str = ""
    ) -> None:
        """Add an event, unless the same kind was added for the same peer within `quarantine_s`.

        `relay`: who brought what is reported of another, at most RELAY_PER_S times a second.
        """
        key = (what, who)
        if now < self._reported.get(key, float("-inf")) + self._settings.quarantine_s:
            return
        if relay and not self._relays.take(relay, now):
            return
        if len(self._reported) >= MAX_OFFENDERS:
            del self._reported[next(iter(self._reported))]
        self._reported.pop(key, None)
        self._reported[key] = now
        self.add_event(Event(at, what, who, text))

    def add_event(self, event: Event) -> None:
        """Add an event in any case."""
        if len(self.events) >= MAX_EVENTS:
            del self.events[0]
        self.events.append(event)
