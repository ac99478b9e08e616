"""The order in which jobs on many hosts are profiled: never two at once that share a host or a
link.  Pure.

Every host works it out from the same records, so all come to the same order.  Of jobs that share
something, one that is being profiled goes on, then one that never was goes first; between equals a
hash of the name decides.  A job that misses its deadline forfeits its turn.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from math import inf

from hostcc.daemon.profiling.turns.claims import Claim
from hostcc.daemon.profiling.turns.local import RemoteTurns, tie_break_hash

SETTLE_S = 4.0
"""The next job waits for so long, seconds, so that records on their way arrive first."""
GRACE_S = 10.0
"""A turn is forfeited when it lasts longer than the longest, or begins later than it could, by so
many seconds: its host does not act."""


class Stage(Enum):
    """How far a job has come."""

    BEHIND = "behind"
    """A job that it shares a host or a link with goes first."""
    NEXT = "next"
    TURN = "turn"


@dataclass(frozen=True)
class Place:
    """A job in the order of turns."""

    stage: Stage
    since_s: float
    """By this host's clock."""
    seen: bool = True
    """Whether this host read the records when that began."""


def follow(
    last: Mapping[str, Place] | None, claims: Mapping[str, Claim], now_s: float, longest_s: float
) -> dict[str, Place]:
    """Where every job is now; `last`: where they were, None before the first read."""
    before = {} if last is None else last
    firsts: dict[str, tuple[bool, bool, bytes, str]] = {}
    for job, claim in claims.items():
        if not _forfeited(before.get(job), claim, now_s, longest_s):
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
    """Which jobs have to wait, and whose turn it is elsewhere."""
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


def _forfeited(place: Place | None, claim: Claim, now_s: float, longest_s: float) -> bool:
    """Whether a job has forfeited its turn, and its claim is still the same."""
    if place is None or (place.stage is Stage.TURN) != claim.turn:
        return False
    return _over(place, now_s, longest_s)


def _over(place: Place, now_s: float, longest_s: float) -> bool:
    """Whether its deadline has passed."""
    if place.stage is Stage.BEHIND:
        return False
    due_s = longest_s if place.stage is Stage.TURN else SETTLE_S
    return now_s - place.since_s > due_s + GRACE_S


def _rank(job: str, claim: Claim) -> tuple[bool, bool, bytes, str]:
    return not claim.turn, claim.again, tie_break_hash(job), job
