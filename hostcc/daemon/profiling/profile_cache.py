"""The cache of what was measured of jobs: many ask twice a second, and little is new.

Laying a job's iterations over each other takes longer than an analysis of its bins, which comes
every few seconds and mostly finds the figures that were there.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass, field
from operator import is_
from typing import Any

from hostcc.daemon.profiling import profiles
from hostcc.daemon.profiling.live_jobs import LiveJob
from hostcc.daemon.profiling.profiles import JobFacts, JobKnowledge
from hostcc.daemon.profiling.tracks import Track
from hostcc.measure.destinations import Address
from hostcc.model import JobProfile

PROFILE_MAX_AGE_S = 20.0
"""Of the profile of a job whose pattern is known and the same: as between two measurements of its
figures (hostcc.measure.pattern_watch)."""

Shares = dict[Address, tuple[float, float]]
"""Of what is sent and received, by destination, in hundredths."""


@dataclass
class _Entry:
    """What is kept of a job, for as long as it has this track."""

    track: Track
    known: JobKnowledge | None = None
    sources: tuple[object, ...] = ()
    """Objects that `known` was made from; replaced when they are others, never changed."""
    to: object = None
    shares: Shares = field(default_factory=dict)
    profile: JobProfile | None = None
    pattern: tuple[Any, ...] | None = None
    """What `profile` was made from, as plain values; None: there is none."""
    made_s: float = 0.0


class ProfileCache:
    """Keeps all that is known of each job, and the profile that others get.

    The first is as new as what it is made from; the second is up to PROFILE_MAX_AGE_S old while
    the job's pattern is the same.
    """

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}

    def known(self, job: LiveJob, track: Track, facts: JobFacts) -> JobKnowledge:
        """Return all that is known of a job; shares of its destinations may be 1 % old."""
        entry, sources = self._entry(job, track), _sources(track, facts)
        known = entry.known
        shares = entry.shares if known is not None and entry.to is track.to else _shares(track)
        same = shares == entry.shares and _are(sources, entry.sources)
        if known is None or not same or known.job != job or known.facts != facts:
            known = entry.known = profiles.known(job, track, facts)
        entry.sources, entry.to, entry.shares = sources, track.to, shares
        return known

    def profile(
        self,
        job: LiveJob,
        track: Track,
        reaches: object,
        now_s: float,
        make: Callable[[], JobProfile | None],
    ) -> JobProfile | None:
        """Return what `make` returns, or what it returned before.

        `reaches`: by which links the job's traffic goes; `now_s`: seconds, of any clock.
        """
        entry, watch = self._entry(job, track), track.watch
        if watch is None or not track.known:
            entry.pattern = None
            return make()
        found = watch.found
        figures = found.period_s, found.mean_period_s, found.irregular, watch.changes
        pattern = job, reaches, figures, track.alone_s
        if pattern != entry.pattern or not 0 <= now_s - entry.made_s < PROFILE_MAX_AGE_S:
            entry.profile = make()
            entry.pattern, entry.made_s = pattern, now_s
        return entry.profile

    def keep(self, jobs: Container[str]) -> None:
        """Forget the others."""
        for name in [name for name in self._entries if name not in jobs]:
            del self._entries[name]

    def _entry(self, job: LiveJob, track: Track) -> _Entry:
        entry = self._entries.get(job.name)
        if entry is None or entry.track is not track:
            entry = self._entries[job.name] = _Entry(track)
        return entry


def _sources(track: Track, facts: JobFacts) -> tuple[object, ...]:
    """What `track.pattern` returns is made of these."""
    watch = track.watch
    if watch is None or watch.series is None or facts.boundaries_s:
        return (watch,)
    return watch.series, watch.found


def _are(some: tuple[object, ...], others: tuple[object, ...]) -> bool:
    return len(some) == len(others) and all(map(is_, some, others))


def _shares(track: Track) -> Shares:
    return {to: (round(tx, 2), round(rx, 2)) for to, (tx, rx) in track.shares().items()}
