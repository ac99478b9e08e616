"""Which jobs wait to be profiled, and which hosts and links they share, from gossiped records.

Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from hostcc.coord.core.payloads import (
    FLOWS,
    PATHS,
    PROFILE,
    WAITING,
    Flows,
    Paths,
    ProfilingClaim,
)
from hostcc.coord.core.record_checker import CheckedRecord, Slot

MemberRecords = Mapping[str, Mapping[Slot, CheckedRecord]]
"""Member -> its records."""


@dataclass(frozen=True)
class Claim:
    """A job that waits, or is being profiled, on some host."""

    turn: bool = False
    """Whether it is being profiled."""
    again: bool = False
    """Whether it has been before."""
    places: frozenset[str] = frozenset()
    """Hosts that it is on, and links (after a `/`) that it uses: jobs that share one take turns."""


@dataclass(frozen=True)
class ClaimSnapshot:
    """All claims at one moment."""

    claims: Mapping[str, Claim] = field(default_factory=dict)
    """Job -> its claim, from the other hosts' records."""
    places: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Of each job that waits here (Claim.places)."""
    crowded: frozenset[str] = frozenset()
    """Those that share a host or a link with any other job."""


def gather(records_of: MemberRecords, own: str, waiting: Collection[str]) -> ClaimSnapshot:
    """The claims of other hosts than `own`, and the places of their jobs and of those that are
    `waiting` here."""
    claims: dict[str, Claim] = {}
    for job, told in _waiting(records_of, own):
        before = claims.get(job, Claim())
        claims[job] = Claim(before.turn or told.turn, before.again or told.again)
    if not claims and not waiting:
        return ClaimSnapshot()
    places: dict[str, set[str]] = {job: {own} for job in waiting}
    for writer, records in records_of.items():
        for (kind, job), held in records.items():
            if kind in {WAITING, PROFILE}:
                if not held.withdrawn:
                    places.setdefault(job, set()).add(writer)
            elif kind == FLOWS and isinstance(content := held.content, Flows):
                places.setdefault(job, set()).update([writer], _used(records, content))
    uses = Counter(place for of in places.values() for place in of)
    return ClaimSnapshot(
        {job: Claim(one.turn, one.again, frozenset(places[job])) for job, one in claims.items()},
        {job: frozenset(places[job]) for job in waiting},
        frozenset(job for job in waiting if any(uses[place] > 1 for place in places[job])),
    )


def with_own(
    snapshot: ClaimSnapshot, own: str, claimed: Mapping[str, ProfilingClaim], live: Collection[str]
) -> dict[str, Claim]:
    """The claims of all hosts, with those of this host (`own`) as they are now.

    `live`: the jobs that are here, whether they wait or not.
    """
    claims = dict(snapshot.claims)
    for job in live:
        mine = claimed.get(job)
        if mine is not None or job in claims:
            theirs, mine = claims.get(job, Claim()), mine or ProfilingClaim(turn=False)
            places = snapshot.places.get(job, frozenset()) | theirs.places | {own}
            claims[job] = Claim(theirs.turn or mine.turn, theirs.again or mine.again, places)
    return claims


def _waiting(records_of: MemberRecords, own: str) -> Iterator[tuple[str, ProfilingClaim]]:
    for writer, records in records_of.items():
        if writer != own:
            for (kind, job), held in records.items():
                if kind == WAITING and isinstance(held.content, ProfilingClaim):
                    yield job, held.content


def _used(records: Mapping[Slot, CheckedRecord], flows: Flows) -> Iterator[str]:
    """Destinations of flows, and the links of their paths: of all that are possible
    where none is known."""
    for flow in flows.flows:
        yield flow.dst
        held = records.get((PATHS, flow.dst))
        if held is not None and isinstance(content := held.content, Paths):
            on = [path for path in content.paths if path.id == flow.path]
            for path in on or content.paths:
                yield from (f"/{link}" for link in path.links)
