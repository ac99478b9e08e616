"""What this host tells others of its jobs, put together anew only when it may be something else.

A job is looked at every few seconds, and laying its iterations over each other takes longer than
that look; its figures are measured again much more seldom.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Any, NamedTuple

from hostcc.daemon.profiling.live_jobs import LiveJob
from hostcc.daemon.profiling.tracks import Track
from hostcc.model import JobProfile

AGAIN_S = 20.0
"""Between two times, of a job whose pattern is known and the same, seconds: as between two
measurements of its figures (hostcc.measure.watch)."""

Make = Callable[[], JobProfile | None]


class _CacheEntry(NamedTuple):
    track: Track
    facts: tuple[Any, ...]
    at_s: float
    profile: JobProfile | None


class ProfileCache:
    """Keeps what was told of each job.  Pure but for what it keeps."""

    def __init__(self) -> None:
        self._made: dict[str, _CacheEntry] = {}

    def of(
        self, job: LiveJob, track: Track, reaches: object, now_s: float, make: Make
    ) -> JobProfile | None:
        """What `make` returns, or what it returned before.

        `reaches`: by which links the job's traffic goes; `now_s`: seconds, of any clock.
        """
        watch = track.watch
        if watch is None or not track.known:
            self._made.pop(job.name, None)
            return make()
        found = watch.found
        pattern = found.period_s, found.mean_period_s, found.irregular, watch.changes
        facts = job, reaches, pattern, track.alone_s
        old = self._made.get(job.name)
        same = old is not None and old.track is track and old.facts == facts
        if old is not None and same and 0 <= now_s - old.at_s < AGAIN_S:
            return old.profile
        made = make()
        self._made[job.name] = _CacheEntry(track, facts, now_s, made)
        return made

    def keep(self, jobs: Container[str]) -> None:
        """Forget the others."""
        for name in [name for name in self._made if name not in jobs]:
            del self._made[name]
