"""Holds what is published of jobs steady: each change makes a new view, and a new plan.  Pure.

A guess is published until the job's iterations are known; what was known outlives a moment of
doubt.  What a job was like when it ran before is published until it is measured, or turns out to
be another one.  Another measurement has to be confirmed for a while before it is published, for
longer the more often that happened: a plan changes what is measured of its jobs, and the two must
not chase each other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from hostcc.coord.core.payloads import Profile
from hostcc.daemon.gossip.profile_records import KEEP_S
from hostcc.model import JobProfile

CONFIRM_S = 3.0
"""A change is published once it has been measured for so long."""
CALM_S, MAX_DOUBLINGS = 60.0, 3
"""A change within `CALM_S` of the last one has to be confirmed for twice as long as that one, up to
`MAX_DOUBLINGS` times."""
GUESS_FACTOR, MEASURED_FACTOR = 1.5, 1.15
"""Guesses, and measurements, whose figures differ by less than this factor are the same."""
SLOWDOWN_FACTOR = 1.5
"""The same for slow-downs, which plans change most."""
MINOR_SHARE = 0.05
"""Destinations with a smaller share of a job's bytes do not make a difference."""


class PublishedRecord(NamedTuple):
    """The record that a profile was published as."""

    profile: JobProfile
    members: Mapping[str, str]
    """Address -> member, when it was made."""
    content: Profile


class PublishedProfile(NamedTuple):
    """What is published of a job, and what speaks for something else."""

    profile: JobProfile
    at: float
    """When something like it was measured last, seconds."""
    other_at: float | None = None
    """Since when something else is measured, seconds; None: it is not."""
    changed_at: float = -math.inf
    """When the published measurement changed last, seconds."""
    changes: int = 0
    """How many changes in a row came within CALM_S of each other."""
    like: JobProfile | None = None
    """The last measurement that was about the same: mostly the next one is this very object."""
    record: PublishedRecord | None = None
    """None: not published as it is now."""

    @property
    def confirm_s(self) -> float:
        """How long something else has to be measured before it is published."""
        known = self.profile.confidence > 0
        return CONFIRM_S * 2 ** min(self.changes, MAX_DOUBLINGS) if known else CONFIRM_S


def step(
    held: Mapping[str, PublishedProfile],
    measured: Sequence[JobProfile],
    elsewhere: Callable[[str], JobProfile | None],
    now: float,
    *,
    turn: bool = True,
) -> dict[str, PublishedProfile]:
    """Return what to publish of the jobs in `measured`, and what is kept of others for KEEP_S.

    `elsewhere`: job -> what other hosts measured of it, or None; `now`: seconds; `turn`: whether
    what changed lately may change again now.
    """
    published = {job: one for job, one in held.items() if now - one.at <= KEEP_S}
    for one in measured:
        guessed = one.confidence <= 0
        fresh = _fitted(one, elsewhere(one.job)) if guessed else one
        published[one.job] = _next(published.get(one.job), fresh, now, turn=turn)
    return published


def _next(
    before: PublishedProfile | None, fresh: JobProfile, now: float, *, turn: bool
) -> PublishedProfile:
    if before is None:
        return PublishedProfile(fresh, now, like=fresh)
    if fresh is before.like:
        return before._replace(at=now, other_at=None)
    old = before.profile
    if old.recalled and not fresh.recalled:
        if fresh.confidence > 0 and _alike(old, fresh, MEASURED_FACTOR):
            # Confirmed: the same figures, so that no host makes another plan.
            confirmed = replace(old, recalled=False)
            return before._replace(profile=confirmed, at=now, other_at=None, like=fresh)
        return PublishedProfile(fresh, now, changed_at=now, like=fresh)
    guess, was_guess = fresh.confidence <= 0, old.confidence <= 0
    if guess != was_guess or fresh.recalled != old.recalled:
        worse = guess or (fresh.recalled and not was_guess)
        return before if worse else PublishedProfile(fresh, now, changed_at=now, like=fresh)
    if _alike(old, fresh, GUESS_FACTOR if guess else MEASURED_FACTOR):
        return before._replace(at=now, other_at=None, like=fresh)
    since = now if before.other_at is None else before.other_at
    better = guess and not old.comm_start_s and fresh.comm_start_s > 0
    restless = now - before.changed_at < CALM_S
    if better or (now - since >= before.confirm_s and (turn or guess or not restless)):
        changes = before.changes + 1 if restless else 0
        return PublishedProfile(fresh, now, changed_at=now, changes=changes, like=fresh)
    return before._replace(at=now, other_at=since)


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
        and near(one.comm_s, other.comm_s)
        and near(one.work, other.work)
        and near(one.assumed_flop_per_s, other.assumed_flop_per_s)
        and near(one.tx_bytes, other.tx_bytes)
        and near(one.slowdown, other.slowdown, SLOWDOWN_FACTOR)
        and one.weight == other.weight
    )


def _destinations(of: JobProfile) -> set[str]:
    least = MINOR_SHARE * of.tx_bytes
    return {to for to, size in of.bytes_to if size >= least}
