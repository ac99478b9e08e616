"""Bounds the processor time of plans, where views change all the time.  Pure.

A plan may take a quarter of a second and more, and where jobs come and go each change is another
view.  Nothing is lost by waiting: the view that is active when there is time again is planned,
those in between are skipped.  The longer a plan has taken, the longer the next one waits: the share
holds whatever a plan takes.
"""

from __future__ import annotations

from dataclasses import dataclass

MAX_CPU_SHARE = 0.01
"""Share of one processor that plans may take in the long run.  Records and views take as much again
at most where jobs come and go all the time."""
MAX_SAVED_S = 6.0
"""Processor time that is saved up at most: the first views after a pause are planned at once."""


@dataclass(frozen=True)
class CpuBudget:
    """Processor time that there is for plans; below 0 after one that took more."""

    left_s: float = MAX_SAVED_S
    at: float = 0.0
    """When `left_s` was worked out, seconds."""

    def now(self, at: float) -> CpuBudget:
        """Return the budget at a later moment, seconds."""
        return CpuBudget(min(MAX_SAVED_S, self.left_s + MAX_CPU_SHARE * max(0.0, at - self.at)), at)

    def spent(self, cost_s: float) -> CpuBudget:
        """Return the budget after a plan that took `cost_s` seconds of a processor."""
        return CpuBudget(self.left_s - cost_s, self.at)

    @property
    def free(self) -> bool:
        """Whether another plan may begin."""
        return self.left_s >= 0.0
