"""Time as a member has experienced it: pauses and steps of the clock count for little.

A host that was suspended, or whose clock was set, would otherwise find every deadline past at
once and accuse everyone.
"""

from __future__ import annotations


class Clock:
    """Adds up what `now` advances by, at most `most_s` at a time, never backwards."""

    def __init__(self, most_s: float) -> None:
        self.most_s = most_s
        self._last: float | None = None
        self.now = 0.0
        """Experienced seconds."""
        self.lost_s = 0.0
        """What the last advance was cut by: this host was away, or its clock was set."""

    def advance(self, now: float) -> float:
        """Experienced seconds at `now`, which may be anything, also not a number."""
        passed = 0.0 if self._last is None else now - self._last
        if not passed > 0.0:
            passed = 0.0
        counted = min(passed, self.most_s)
        self.lost_s = passed - counted
        self._last = now
        self.now += counted
        return self.now
