"""How long a job's burst takes while no rival sends: what the plan's links do not tell.  Pure.

A job that its network card or its processors limit sends for longer than the slowest link of its
paths would need.  Who takes turns finds out, since in its turn nobody else sends.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import median_low

MIN_BURSTS, KEPT_BURSTS = 6, 12
"""Bursts that a figure rests on: at least, and the latest of them."""


@dataclass(frozen=True)
class LoneBursts:
    """The latest bursts of a job that nobody disturbed."""

    begun_s: float | None = None
    """When the one of now began; None: there is none, or a rival sends too."""
    times_s: tuple[float, ...] = ()

    def begin(self, at_s: float, *, alone: bool) -> LoneBursts:
        """Return them after a burst has begun; `alone`: no rival sends."""
        return replace(self, begun_s=at_s if alone else None)

    def disturb(self, at_s: float, expected_s: float) -> LoneBursts:
        """Return them after a rival has begun to send.

        A burst that takes longer than expected counts with what it took so far: rivals wait for a
        time in proportion to what is expected, so they would disturb each one before its end.
        """
        if self.begun_s is None or at_s - self.begun_s > expected_s:
            return self.end(at_s)
        return replace(self, begun_s=None)

    def end(self, at_s: float) -> LoneBursts:
        """Return them after the burst is over."""
        if self.begun_s is None or at_s <= self.begun_s:
            return replace(self, begun_s=None)
        return LoneBursts(None, (*self.times_s, at_s - self.begun_s)[-KEPT_BURSTS:])

    @property
    def usual_s(self) -> float | None:
        """What a burst takes alone, the lower median; None: too few were seen."""
        return median_low(self.times_s) if len(self.times_s) >= MIN_BURSTS else None
