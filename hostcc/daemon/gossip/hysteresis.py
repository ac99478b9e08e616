"""What this host tells of its jobs, held still: each change makes a new view, and a new plan.

A guess counts until the job's iterations are known, what was known outlives a moment of doubt,
and what says something else has to say so for a while: the longer, the more often it did.  A plan
changes what is measured of the jobs that it is about, so the two must not chase each other.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from hostcc.daemon.gossip.profile_records import KEEP_S
from hostcc.model import JobProfile

EVERY_S = 0.5
"""Between looks at what was measured, seconds."""
AGAIN_S = 3.0
"""What is told has to be another for so long, before it is told; seconds."""
CALM_S, DOUBLINGS = 60.0, 3
"""That is twice as long for a measurement that replaces one of the last so many seconds, up to so
many times."""
TURN_S = 6.0
"""Such a measurement is told when the clock of the day passes a multiple of this, as on every other
host: of jobs that plans disturb the figures change together, and make one view and not ten."""
OTHER_GUESS, OTHER = 1.5, 1.15
"""Guesses, and measurements, that differ by less than this factor are the same."""
OTHER_SLOWDOWN = 1.5
"""Likewise slow-downs, which plans change most."""
SMALL = 0.05
"""Part of a job's bytes below which a destination does not make a difference."""


class PublishedProfile(NamedTuple):
    """What is told of a job."""

    profile: JobProfile
    at: float
    """When something like it was measured last, seconds."""
    other_at: float | None = None
    """Since when something else is measured, seconds; None: it is not."""
    changed_at: float = -math.inf
    """When another measurement was told last, seconds."""
    changes: int = 0
    """How often that was soon after the one before."""
    like: JobProfile | None = None
    """The last measurement that said the same: mostly it is measured again."""

    @property
    def patience_s(self) -> float:
        """How long something else has to be said."""
        known = self.profile.confidence > 0
        return AGAIN_S * 2 ** min(self.changes, DOUBLINGS) if known else AGAIN_S


def step(
    held: Mapping[str, PublishedProfile],
    measured: Sequence[JobProfile],
    elsewhere: Callable[[str], JobProfile | None],
    now: float,
    *,
    turn: bool = True,
) -> dict[str, PublishedProfile]:
    """What to tell of the jobs in `measured`, and what is kept in mind of others for a while.

    `elsewhere`: job -> what the cluster knows of it; None: nothing.  `turn`: whether what changed
    lately may change again now.
    """
    told = {job: one for job, one in held.items() if now - one.at <= KEEP_S}
    for one in measured:
        guessed = one.confidence <= 0
        fresh = _fitted(one, elsewhere(one.job)) if guessed else one
        told[one.job] = _next(told.get(one.job), fresh, now, turn=turn)
    return told


def _next(
    before: PublishedProfile | None, fresh: JobProfile, now: float, *, turn: bool
) -> PublishedProfile:
    if before is None:
        return PublishedProfile(fresh, now, like=fresh)
    if fresh is before.like:
        return before._replace(at=now, other_at=None)
    old = before.profile
    guess, was_guess = fresh.confidence <= 0, old.confidence <= 0
    if guess != was_guess:
        return before if guess else PublishedProfile(fresh, now, changed_at=now, like=fresh)
    if _alike(old, fresh, OTHER_GUESS if guess else OTHER):
        return before._replace(at=now, other_at=None, like=fresh)
    since = now if before.other_at is None else before.other_at
    better = guess and not old.comm_start_s and fresh.comm_start_s > 0
    restless = now - before.changed_at < CALM_S
    if better or (now - since >= before.patience_s and (turn or guess or not restless)):
        changes = before.changes + 1 if restless else 0
        return PublishedProfile(fresh, now, changed_at=now, changes=changes, like=fresh)
    return before._replace(at=now, other_at=since)


class ProfileHysteresis:
    """Keeps that current."""

    def __init__(
        self,
        measured: Callable[[], Sequence[JobProfile]],
        elsewhere: Callable[[str], JobProfile | None],
        clock: Callable[[], float] = time.monotonic,
        day: Callable[[], float] = time.time,
    ) -> None:
        """`day`: seconds, about the same on all hosts."""
        self._measured, self._elsewhere, self._clock = measured, elsewhere, clock
        self._held: dict[str, PublishedProfile] = {}
        self._now: list[JobProfile] = []
        self._due = -math.inf
        self._day, self._turn = day, 0

    def profiles(self) -> list[JobProfile]:
        """What is told of the jobs that there are."""
        self._look()
        return self._now

    def _look(self) -> None:
        now = self._clock()
        if now >= self._due:
            self._due = now + EVERY_S
            measured = self._measured()
            before, self._turn = self._turn, int(self._day() // TURN_S)
            turn = self._turn != before
            self._held = step(self._held, measured, self._elsewhere, now, turn=turn)
            self._now = [self._held[one.job].profile for one in measured]


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


def _alike(one: JobProfile, other: JobProfile, factor: float) -> bool:
    def near(x: float, y: float, factor: float = factor) -> bool:
        return x == y or (min(x, y) > 0 and max(x, y) < factor * min(x, y))

    return (
        _destinations(one) == _destinations(other)
        and near(one.period_s, other.period_s)
        and near(one.compute_s, other.compute_s)
        and near(one.comm_start_s, other.comm_start_s)
        and near(one.work, other.work)
        and near(_sent(one), _sent(other))
        and near(one.slowdown, other.slowdown, OTHER_SLOWDOWN)
        and one.weight == other.weight
    )


def _sent(of: JobProfile) -> float:
    return math.fsum(size for _, size in of.bytes_to)


def _destinations(of: JobProfile) -> set[str]:
    least = SMALL * _sent(of)
    return {to for to, size in of.bytes_to if size >= least}
