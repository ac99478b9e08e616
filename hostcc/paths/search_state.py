"""What a search remembers of a distance and of a source port."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from hostcc.paths.packets import Kind

MIN_ANSWERS = 2
"""Until a router, a distance or an end is believed."""


@dataclass
class Depth:
    """One distance from the source."""

    gap_s: float
    next_s: float = 0.0
    streak: int = 0
    routers: Counter[str] = field(default_factory=Counter)
    silent: bool = False
    """Nobody has ever answered there."""
    unanswered: int = 0
    """Ports that gave up there although others get answers."""
    claims: dict[str, list[tuple[int, float]]] = field(default_factory=dict)
    """Router of a single answer -> the port that met it and the time that it took."""
    said: Counter[tuple[bool, Kind]] = field(default_factory=Counter)
    """(Asked by echo?, what the answer says) -> how often."""

    def agreed(self, *, echo: bool, kind: Kind) -> bool:
        """Count an answer; whether as many say so as are needed to believe it."""
        self.said[echo, kind] += 1
        return self.said[echo, kind] >= MIN_ANSWERS


@dataclass
class Port:
    """One source port under way."""

    number: int
    whole: bool
    known: dict[int, str] = field(default_factory=dict)
    asked: set[int] = field(default_factory=set)
