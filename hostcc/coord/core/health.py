"""Lifeguard's local health: how far a member trusts its own view (arXiv 1707.00788, 3.1)."""

from __future__ import annotations

WORST = 8
"""Lifeguard's S: timeouts grow to at most nine times their base."""


class Health:
    """A score of 0 (well) to WORST; rises when probes fail, on accusations and on missed rounds."""

    def __init__(self) -> None:
        self.score = 0

    @property
    def patience(self) -> int:
        """Factor by which timeouts are multiplied."""
        return 1 + self.score

    def worse(self) -> None:
        """Raise the score: something failed that may be this member's own fault."""
        self.score = min(WORST, self.score + 1)

    def better(self) -> None:
        """Lower the score: a probe was answered in time."""
        self.score = max(0, self.score - 1)
