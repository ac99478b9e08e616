"""How far a member trusts itself: Lifeguard's local health (arXiv 1707.00788, section 3.1)."""

from __future__ import annotations

WORST = 8
"""Lifeguard's S: timeouts grow up to nine times."""


class Health:
    """0: well.  Rises when probes fail, when others accuse this member, when it misses rounds."""

    def __init__(self) -> None:
        self.score = 0

    @property
    def patience(self) -> int:
        """What timeouts are multiplied by."""
        return 1 + self.score

    def worse(self) -> None:
        """Something failed that may be this member's own fault."""
        self.score = min(WORST, self.score + 1)

    def better(self) -> None:
        """A probe was answered in time."""
        self.score = max(0, self.score - 1)
