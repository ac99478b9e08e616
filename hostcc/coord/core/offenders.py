"""Peers that break the rules: told of once in a while, and not heard for a while."""

from __future__ import annotations

from dataclasses import dataclass

from hostcc.coord.core.settings import Settings

MAX_OFFENDERS = 1024
MAX_EVENTS = 1000


@dataclass(frozen=True)
class Event:
    """Something that an operator may want to know."""

    at: float
    """Of the clock that the core was given."""
    what: str
    """What kind of thing: "offender", "refused", "name" ..."""
    who: str
    text: str


@dataclass
class _Record:
    first: float
    count: int = 0
    until: float = 0.0


class Offenders:
    """Strikes by peer, and events that are told once per quarantine's length."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._records: dict[str, _Record] = {}
        self._told: dict[tuple[str, str], float] = {}
        self.events: list[Event] = []
        """For the caller to take away; the oldest go first when nobody does."""

    def heard(self, peer: str, now: float) -> bool:
        """Whether to listen to a peer."""
        record = self._records.get(peer)
        return record is None or now >= record.until

    def strike(self, peer: str, reason: str, now: float, at: float) -> None:
        """A peer did what no honest one does.  `now` is experienced, `at` goes into the log."""
        record = self._records.get(peer)
        if record is None or now >= record.first + self._settings.quarantine_s:
            if len(self._records) >= MAX_OFFENDERS:
                del self._records[next(iter(self._records))]
            self._records.pop(peer, None)
            record = self._records[peer] = _Record(now)
        record.count += 1
        if record.count >= self._settings.strikes:
            record.until = now + self._settings.quarantine_s
        self.tell("offender", peer, reason, now, at)

    def tell(self, what: str, who: str, text: str, now: float, at: float) -> None:
        """An event, unless the same kind was told of the same one lately."""
        key = (what, who)
        if now < self._told.get(key, float("-inf")) + self._settings.quarantine_s:
            return
        if len(self._told) >= MAX_OFFENDERS:
            del self._told[next(iter(self._told))]
        self._told.pop(key, None)
        self._told[key] = now
        self.note(Event(at, what, who, text))

    def note(self, event: Event) -> None:
        """An event, whatever was told before."""
        if len(self.events) >= MAX_EVENTS:
            del self.events[0]
        self.events.append(event)
