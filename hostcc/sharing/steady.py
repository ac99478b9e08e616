"""What this host tells of its jobs, held still: each change makes a new view, and a new plan.

A guess counts until the job's iterations are known; what was known outlives a moment of doubt;
one guess follows another only when it says something else.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from hostcc.model import JobProfile
from hostcc.sharing.publishing import KEEP_S

EVERY_S = 0.5
"""Between looks at what was measured, seconds."""
AGAIN_S = 3.0
"""Between two guesses of one job, seconds."""
OTHER = 1.5
"""Guesses that differ by less than this factor are the same."""
SMALL = 0.05
"""Part of a job's bytes below which a destination does not make a difference."""


@dataclass(frozen=True)
class Held:
    """What is told of a job."""

    profile: JobProfile
    at: float
    """When that was measured last, or guessed first; seconds."""


def step(
    held: Mapping[str, Held],
    measured: Sequence[JobProfile],
    elsewhere: Callable[[str], JobProfile | None],
    now: float,
) -> dict[str, Held]:
    """What to tell of the jobs in `measured`, and what is kept in mind of others for a while.

    `elsewhere`: job -> what the cluster knows of it; None: nothing.
    """
    told = {job: one for job, one in held.items() if now - one.at <= KEEP_S}
    for one in measured:
        before = told.get(one.job)
        if one.confidence > 0:
            told[one.job] = Held(one, now)
        elif before is None:
            told[one.job] = Held(_fitted(one, elsewhere(one.job)), now)
        elif before.profile.confidence <= 0 and now - before.at >= AGAIN_S:
            fresh = _fitted(one, elsewhere(one.job))
            same = _alike(before.profile, fresh)
            told[one.job] = Held(before.profile if same else fresh, now)
    return told


class Steady:
    """Keeps that current."""

    def __init__(
        self,
        measured: Callable[[], Sequence[JobProfile]],
        elsewhere: Callable[[str], JobProfile | None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._measured, self._elsewhere, self._clock = measured, elsewhere, clock
        self._held: dict[str, Held] = {}
        self._now: list[JobProfile] = []
        self._due = -math.inf

    def profiles(self) -> list[JobProfile]:
        """Of the jobs that there are."""
        now = self._clock()
        if now >= self._due:
            self._due = now + EVERY_S
            measured = self._measured()
            self._held = step(self._held, measured, self._elsewhere, now)
            self._now = [self._held[one.job].profile for one in measured]
        return self._now


def _fitted(guess: JobProfile, known: JobProfile | None) -> JobProfile:
    """A guess with the iteration that another host has measured: the same rate in other steps."""
    if known is None or known.confidence <= 0 or known.period_s <= 0:
        return guess
    factor = known.period_s / guess.period_s
    return replace(
        guess,
        compute_s=known.compute_s,
        comm_start_s=known.comm_start_s,
        period_s=known.period_s,
        bytes_to=tuple((to, size * factor) for to, size in guess.bytes_to),
    )


def _alike(one: JobProfile, other: JobProfile) -> bool:
    return (
        _destinations(one) == _destinations(other)
        and _near(one.period_s, other.period_s)
        and _near(one.compute_s, other.compute_s)
        and _near(one.work, other.work)
        and _near(_sent(one) / one.period_s, _sent(other) / other.period_s)
        and one.weight == other.weight
    )


def _near(one: float, other: float) -> bool:
    return one == other or (min(one, other) > 0 and max(one, other) < OTHER * min(one, other))


def _sent(of: JobProfile) -> float:
    return math.fsum(size for _, size in of.bytes_to)


def _destinations(of: JobProfile) -> set[str]:
    least = SMALL * _sent(of)
    return {to for to, size in of.bytes_to if size >= least}
