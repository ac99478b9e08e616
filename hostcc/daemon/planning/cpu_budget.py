"""How often a host plans: views that never hold still must not take a processor.  Pure.

A small view is simulated for a quarter of a second, one of thousands of jobs planned for as long,
and where jobs come and go each change is another view.  What waits is not lost: the view that is
active when there is time again is planned, those in between are not.
"""

from __future__ import annotations

from dataclasses import dataclass

SHARE = 0.25
"""Of one processor, in the long run."""
BURST_S = 2.0
"""Processor time saved up at most: the first views after a calm while are planned at once."""
LONGEST_S = 10.0
"""Between two plans at most, whatever they cost; a plan is old after plan.max_age_s, 30 s."""


@dataclass(frozen=True)
class CpuBudget:
    """Processor time that there is for plans; below 0 after one that took more."""

    left_s: float = BURST_S
    at: float = 0.0
    """When `left_s` was worked out, seconds."""

    def now(self, at: float) -> CpuBudget:
        """The same at a later moment."""
        return CpuBudget(min(BURST_S, self.left_s + SHARE * max(0.0, at - self.at)), at)

    def spent(self, cost_s: float) -> CpuBudget:
        """The same when a plan has taken so much processor time."""
        return CpuBudget(max(self.left_s - cost_s, -SHARE * LONGEST_S), self.at)

    @property
    def free(self) -> bool:
        """Whether another plan may begin."""
        return self.left_s >= 0.0
