"""What a peer's clock shows, from round trips: Cristian's method, as NTP uses it (RFC 5905).

An answer carries the peer's clock when it had the question.  That was at some moment between
question and answer, so half of the round trip bounds the error.  The sample of the least bound
counts, which grows with its age, because clocks drift.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from hostcc.coord.core.message import CLOCK_MAX

NS = 10**9
KEPT_SAMPLES = 8
DRIFT = 1e-4
"""Seconds that two clocks drift apart in a second, at most: two oscillators of 50 ppm."""
MAX_AGE_S = 300.0
"""A sample that is older does not count."""


class ClockOffset(NamedTuple):
    """A peer's clock less this host's one."""

    seconds: float
    error_s: float
    """It is off by at most so much."""


class _Sample(NamedTuple):
    at_s: float
    """On this host's clock, in the middle of the round trip."""
    offset_s: float
    half_s: float
    """Half of the round trip."""

    def error_s(self, now: float) -> float:
        return self.half_s + DRIFT * abs(now - self.at_s)


class PeerClock:
    """Recent round trips to one peer."""

    def __init__(self) -> None:
        self._samples: list[_Sample] = []

    def add(self, asked_s: float, answered_s: float, theirs_ns: int) -> None:
        """Add a round trip: begin and end on this host's clock, seconds, and the peer's between.

        A sample that cannot be true beside the others replaces them: the peer has started again,
        and so has its clock.
        """
        half_s = (answered_s - asked_s) / 2
        if not 0 <= half_s < MAX_AGE_S or not 0 < theirs_ns <= CLOCK_MAX:
            return
        middle_s = asked_s + half_s
        fresh = _Sample(middle_s, theirs_ns / NS - middle_s, half_s)
        best = self.offset(middle_s)
        if best is not None and abs(fresh.offset_s - best.seconds) > best.error_s + half_s:
            self._samples.clear()
        self._samples = [*self._samples, fresh][-KEPT_SAMPLES:]

    def offset(self, now: float) -> ClockOffset | None:
        """Return how far the peer's clock is ahead at `now` seconds; None: no recent sample."""
        recent = [one for one in self._samples if abs(now - one.at_s) <= MAX_AGE_S]
        if not recent:
            return None
        best = min(recent, key=lambda one: one.error_s(now))
        return ClockOffset(best.offset_s, best.error_s(now))


def clock_time(now: float) -> int:
    """Return a clock reading in seconds as a message carries it, ns; 0 where it is no time."""
    return round(now * NS) if math.isfinite(now) and 0 < now * NS <= CLOCK_MAX else 0
