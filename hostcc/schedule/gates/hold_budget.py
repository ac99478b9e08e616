"""For how long a job may be held: a bucket of seconds that fills slowly.  Pure."""

from __future__ import annotations

from dataclasses import dataclass

WINDOW_S = 60.0
"""In any such time a job is held for at most its share."""


@dataclass(frozen=True)
class HoldBudget:
    """Seconds for which a job may still be held.

    The bucket holds half of what a window allows, and fills with the other half while the window
    lasts: together never more than that in any window.
    """

    max_share: float
    """Fraction of the time that it may be held."""
    left_s: float
    at_s: float
    """When there was so much left."""

    @classmethod
    def full(cls, max_share: float, now_s: float) -> HoldBudget:
        """Return the budget of a job that was not held lately."""
        return cls(max_share, max_share * WINDOW_S / 2, now_s)

    def at(self, now_s: float) -> HoldBudget:
        """Return the budget later on, if the job is not held meanwhile."""
        filled_s = self.left_s + self.max_share / 2 * max(0.0, now_s - self.at_s)
        return HoldBudget(self.max_share, min(self.max_share * WINDOW_S / 2, filled_s), now_s)

    def spent(self, held_s: float) -> HoldBudget:
        """Return the budget after a hold."""
        return HoldBudget(self.max_share, self.left_s - max(0.0, held_s), self.at_s)
