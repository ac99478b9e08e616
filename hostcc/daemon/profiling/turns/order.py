"""Who may be profiled, of jobs on many hosts: never two at once that share a host or a link.  Pure.

Every host works this out of the same records, so they come to the same without asking.  Of the
jobs that share something those that are being profiled go on, then those that have never been,
and between equals a lot decides that is the same everywhere.  Nobody is waited for who does not
do what it is waited for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from math import inf

from hostcc.daemon.profiling.turns.claims import Claim
from hostcc.daemon.profiling.turns.local import RemoteTurns, tie_break_hash

SETTLE_S = 4.0
"""A job that is next waits for so long, so that a record that is on its way is heard first."""
GRACE_S = 10.0
"""A turn that has lasted so much longer than the longest, and one that does not begin for so long,
hold back nobody: whoever said so does not act."""


class Stage(Enum):
    """How far a job has come."""

    BEHIND = "behind"
    """Another one that it shares something with comes first."""
    NEXT = "next"
    TURN = "turn"


@dataclass(frozen=True)
class Place:
    """A job in the order of turns."""

    stage: Stage
    since_s: float
    """By this host's clock."""
    seen: bool = True
    """Whether this host was listening when that began."""


def follow(
    last: Mapping[str, Place] | None, claims: Mapping[str, Claim], now_s: float, longest_s: float
) -> dict[str, Place]:
    """Where every job is now; `last`: where they were, None when nobody has listened yet."""
    before = {} if last is None else last
    firsts: dict[str, tuple[bool, bool, bytes, str]] = {}
    for job, claim in claims.items():
        if not _stuck(before.get(job), claim, now_s, longest_s):
            for place in claim.places:
                firsts[place] = min(firsts.get(place, _rank(job, claim)), _rank(job, claim))
    found = {}
    for job, claim in claims.items():
        rank = _rank(job, claim)
        behind = any(place in firsts and firsts[place] < rank for place in claim.places)
        stage = Stage.BEHIND if behind else Stage.TURN if claim.turn else Stage.NEXT
        at = before.get(job)
        if at is None or at.stage is not stage:
            at = Place(stage, now_s, seen=last is not None)
        found[job] = at
    return found


def others(places: Mapping[str, Place], now_s: float, longest_s: float) -> RemoteTurns:
    """What the hosts' jobs have to heed."""
    return RemoteTurns(
        behind=frozenset(
            job
            for job, at in places.items()
            if at.stage is Stage.BEHIND
            or (at.stage is Stage.NEXT and now_s - at.since_s < SETTLE_S)
        ),
        since={
            job: at.since_s if at.seen else -inf
            for job, at in places.items()
            if at.stage is Stage.TURN and not _over(at, now_s, longest_s)
        },
    )


def _stuck(place: Place | None, claim: Claim, now_s: float, longest_s: float) -> bool:
    """Whether nobody is to wait for a job as long as this is all that is said of it."""
    if place is None or (place.stage is Stage.TURN) != claim.turn:
        return False
    return _over(place, now_s, longest_s)


def _over(place: Place, now_s: float, longest_s: float) -> bool:
    """Whether something should have happened to it long ago."""
    if place.stage is Stage.BEHIND:
        return False
    due_s = longest_s if place.stage is Stage.TURN else SETTLE_S
    return now_s - place.since_s > due_s + GRACE_S


def _rank(job: str, claim: Claim) -> tuple[bool, bool, bytes, str]:
    return not claim.turn, claim.again, tie_break_hash(job), job
