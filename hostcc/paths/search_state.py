"""State of a search for each distance and each source port."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from hostcc.paths.packets import Kind

MIN_ANSWERS = 2
"""Answers until a router, a distance or an end is believed."""


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
    """Ports given up there although others get answers."""
    claims: dict[str, list[tuple[int, float]]] = field(default_factory=dict)
    """Router of a single answer -> (port that met it, round-trip time)."""
    said: Counter[tuple[bool, Kind]] = field(default_factory=Counter)
    """(Asked by echo?, kind of answer) -> how often."""

    def agreed(self, *, echo: bool, kind: Kind) -> bool:
        """Count an answer; returns whether it was given often enough to be believed."""
        self.said[echo, kind] += 1
        return self.said[echo, kind] >= MIN_ANSWERS


@dataclass
class Port:
    """One source port whose path is being probed."""

    number: int
    whole: bool
    known: dict[int, str] = field(default_factory=dict)
    asked: set[int] = field(default_factory=set)
