"""Experienced time, in which pauses and clock steps count for little.

Otherwise a host that was suspended, or whose clock was set, would find every deadline passed at
once and accuse all other members.
"""

from __future__ import annotations


class Clock:
    """Sums the advances of `now`, each limited to `most_s` seconds, never backwards."""

    def __init__(self, most_s: float) -> None:
        self.most_s = most_s
        self._last: float | None = None
        self.now = 0.0
        """Experienced seconds."""
        self.lost_s = 0.0
        """Seconds that the last advance was cut by; above 0: the host paused or its clock was set.
        """

    def advance(self, now: float) -> float:
        """Return the experienced seconds at `now`, a clock reading of any value (NaN included)."""
        passed = 0.0 if self._last is None else now - self._last
        if not passed > 0.0:
            passed = 0.0
        counted = min(passed, self.most_s)
        self.lost_s = passed - counted
        self._last = now
        self.now += counted
        return self.now
