"""Algorithm 2: finds the placement of jobs with the most compatible ones on its links.

A candidate says which jobs cross which links. Each shared link is scored (compatibility.py), and a
candidate's score is the mean over its links. A candidate whose Affinity graph has a loop has no
unique time-shifts and is rejected. The best candidate's shifts come from Algorithm 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hostcc.schedule.cassini import affinity, circle, compatibility
from hostcc.schedule.cassini.affinity import Affinity
from hostcc.schedule.cassini.circle import Pattern
from hostcc.schedule.cassini.compatibility import Fit
from hostcc.schedule.errors import ViewError

LOOP = "loop"
PERIODS = "periods"


@dataclass(frozen=True)
class Candidate:
    """A placement: for every link, the jobs that cross it."""

    name: str
    jobs_on: Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class RankedCandidate:
    """A candidate with its score and time-shifts."""

    name: str
    score: float
    """Mean over shared links; 1 if no link is shared; 0 if rejected."""
    worst: float
    """The lowest score of its links."""
    shifts: Mapping[str, float]
    """Job -> seconds; empty if rejected."""
    links: Mapping[str, float]
    """Shared link -> score."""
    rejected: str = ""
    """Why: "loop", "periods" (no common multiple); empty: accepted."""


def rank(
    candidates: Sequence[Candidate],
    jobs: Mapping[str, Pattern],
    capacities: Mapping[str, float],
    *,
    tolerance: float = circle.PERIOD_TOLERANCE,
) -> tuple[RankedCandidate, ...]:
    """Return the candidates, best first; ties by worst link, then by name; rejected ones last.

    `jobs`: the demand of each on any link that it crosses; `capacities`: bytes/s of each link.
    Raises ViewError for unknown jobs and links, and for duplicate candidate names.
    """
    names = [candidate.name for candidate in candidates]
    if len(set(names)) != len(names):
        raise ViewError("candidates: expected each name once")
    for pattern in jobs.values():
        circle.check(pattern)
    known: dict[tuple[tuple[str, ...], float], Fit | None] = {}
    ranked = [_judge(one, jobs, capacities, known, tolerance) for one in candidates]
    return tuple(sorted(ranked, key=lambda r: (r.rejected != "", -r.score, -r.worst, r.name)))


def _judge(
    candidate: Candidate,
    jobs: Mapping[str, Pattern],
    capacities: Mapping[str, float],
    known: dict[tuple[tuple[str, ...], float], Fit | None],
    tolerance: float,
) -> RankedCandidate:
    shared = {}
    for link, crossing in sorted(candidate.jobs_on.items()):
        if link not in capacities:
            raise ViewError(f"candidate: {candidate.name}: expected known links, got {link!r:.70}")
        present = tuple(sorted(set(crossing)))
        for job in present:
            if job not in jobs:
                raise ViewError(
                    f"candidate: {candidate.name}: expected known jobs, got {job!r:.70}"
                )
        if len(present) > 1:
            shared[link] = present
    if affinity.has_loop(list(shared.values())):
        return RankedCandidate(candidate.name, 0.0, 0.0, {}, {}, LOOP)
    fits: dict[str, Fit] = {}
    for link, present in shared.items():
        key = (present, capacities[link])
        if key not in known:
            known[key] = _fit([jobs[job] for job in present], capacities[link], tolerance)
        found = known[key]
        if found is None:
            return RankedCandidate(candidate.name, 0.0, 0.0, {}, {}, PERIODS)
        fits[link] = found
    graph = [
        Affinity(link, dict(zip(shared[link], found.shifts, strict=True)))
        for link, found in fits.items()
    ]
    everyone = {job for crossing in candidate.jobs_on.values() for job in crossing}
    shifts = affinity.time_shifts(graph, {job: jobs[job].period for job in sorted(everyone)})
    scores = {link: found.score for link, found in fits.items()}
    mean = sum(scores.values()) / len(scores) if scores else 1.0
    return RankedCandidate(candidate.name, mean, min(scores.values(), default=1.0), shifts, scores)


def _fit(patterns: Sequence[Pattern], capacity: float, tolerance: float) -> Fit | None:
    try:
        return compatibility.fit(patterns, capacity, tolerance=tolerance)
    except ViewError as error:
        if str(error).startswith("periods:"):
            return None
        raise
