"""Which jobs wait to be profiled, and which hosts and links they share, from gossiped records.

Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from itertools import chain

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
_OF_JOB = frozenset({WAITING, PROFILE, FLOWS})
"""Kinds of records whose writer is a host of the job in their key."""


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
    places |= {job: places.get(job, set()) for job in claims}
    for job, some in _places(records_of, places.keys()):
        places[job].update(some)
    return ClaimSnapshot(
        {job: Claim(one.turn, one.again, frozenset(places[job])) for job, one in claims.items()},
        {job: frozenset(places[job]) for job in waiting},
        _crowded(records_of, {job: places[job] for job in waiting}),
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


def _places(
    records_of: MemberRecords, jobs: Collection[str] | None = None
) -> Iterator[tuple[str, Iterable[str]]]:
    """Jobs with places of theirs, hosts first; `jobs`: of these alone, because flows have to be
    decoded."""
    flows = []
    for writer, records in records_of.items():
        for (kind, job), held in records.items():
            if kind in _OF_JOB and not held.withdrawn and (jobs is None or job in jobs):
                yield job, (writer,)
                if kind == FLOWS:
                    flows.append((job, records, held))
    for job, records, held in flows:
        if isinstance(content := held.content, Flows):
            yield job, _used(records, content)


def _crowded(records_of: MemberRecords, places: Mapping[str, Set[str]]) -> frozenset[str]:
    """Of jobs with these places, those that share one with any other job of the cluster."""
    alone = set(places)
    for other, some in chain(places.items(), _places(records_of)) if alone else ():
        theirs = frozenset(some)
        alone -= {job for job in alone if job != other and not theirs.isdisjoint(places[job])}
        if not alone:
            break
    return frozenset(places.keys() - alone)


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
