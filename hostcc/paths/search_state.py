"""What a search remembers of a distance and of a source port."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


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


@dataclass
class Port:
    """One source port under way."""

    number: int
    whole: bool
    known: dict[int, str] = field(default_factory=dict)
    asked: set[int] = field(default_factory=set)
