"""Remembers jobs that were measured on this host, and starts those that come again with that."""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass
from pathlib import Path

from hostcc.answers.jobs import RememberedFigures
from hostcc.answers.parts import MemoryPart
from hostcc.daemon.profiling import memory_file, remembered
from hostcc.daemon.profiling.live_jobs import LiveJob, host_name
from hostcc.daemon.profiling.remembered import RememberedJob, RememberedJobs
from hostcc.daemon.profiling.tracks import SENDING_WITHIN_S, Track
from hostcc.daemon.supervisor import Host, in_thread
from hostcc.errors import InputError
from hostcc.log import get_logger
from hostcc.measure.meter import TX
from hostcc.measure.series import NS
from hostcc.model import Difference, JobProfile

log = get_logger("memory")

SAVE_S = 10.0
"""Between two looks whether something new is to be written, seconds."""
SILENT_PERIODS = 2.0
"""A job that has sent nothing for so many of its periods, and for SENDING_WITHIN_S, is not
iterating now."""


@dataclass
class _Life:
    """A job since it began."""

    measured: JobProfile | None = None
    """What was measured of it last."""
    is_over: bool = False
    """Whether it has been measured, or is another one: what is remembered is of no use now."""
    known: RememberedJob | None = None
    told: JobProfile | None = None
    """What it is told to be, made of `known` and `to`; None: it is not recalled now."""
    to: frozenset[str] = frozenset()
    """Destinations that it has sent to."""


class JobMemory:
    """Adds what is remembered to what is measured, and keeps it in a file of run_dir.

    A file that cannot be used is reported once, and nothing is remembered of before; one that
    cannot be written costs only what the next agent would have known.
    """

    name = "memory"
    every_s = SAVE_S

    def __init__(self, host: Host, clock_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._host, self._clock_ns = host, clock_ns
        self._jobs = RememberedJobs()
        self._lives: dict[str, _Life] = {}
        self._is_saved = True
        self._trouble = ""
        """Why the file could not be read or written; empty: it could."""

    def disabled_reason(self) -> str:
        """Nothing is remembered where nothing is measured."""
        return "" if self._host.config.measure.enabled else "measure.enabled is false"

    async def start(self) -> None:
        """Read what an earlier agent has learned."""
        try:
            self._jobs.add_older(await in_thread(memory_file.read, self._path))
        except InputError as error:
            self._trouble = str(error)
            log.warning("nothing is remembered of earlier jobs", reason=self._trouble)

    async def tick(self) -> None:
        """Write what is new."""
        if self._is_saved:
            return
        self._is_saved = True
        try:
            await in_thread(memory_file.write, self._path, self._jobs.jobs)
        except OSError as error:
            self._is_saved = False
            before = self._trouble
            self._trouble = f"{self._path}: {error.strerror}"
            if before != self._trouble:
                log.warning("what was learned of jobs is not on disk", reason=self._trouble)
        else:
            self._trouble = ""

    async def stop(self) -> None:
        """Write what is new."""
        await self.tick()

    def verify(self) -> list[Difference]:
        """Find nothing: no setting of the host is changed."""
        return []

    def view(self) -> MemoryPart:
        """How many jobs are remembered, and how many are planned by that now."""
        return MemoryPart(
            jobs=len(self._jobs),
            recalled=sum(life.told is not None for life in self._lives.values()),
            reason=self._trouble or None,
        )

    # What the byte meter asks.

    def complete(self, job: LiveJob, track: Track, found: JobProfile | None) -> JobProfile | None:
        """Return what to tell others of a job: what was `found`, or more from before.

        A measurement is remembered, and counts alone from then on.
        """
        key = remembered.key_of(job)
        if key is None:
            return found
        life = self._lives.setdefault(job.name, _Life())
        if found is not None and found.confidence > 0:
            if found is not life.measured:
                life.measured, life.is_over, life.told = found, True, None
                one = remembered.learned(key, found)
                if one is not None and self._jobs.keep(one):
                    self._is_saved = False
            return found
        if life.is_over:
            return found
        known = self._jobs.recall(key)
        if known is None or not remembered.has_begun(known, track.total[TX]):
            return found
        elapsed_s = (track.last_ns - track.first_ns) / NS
        if remembered.contradicts(known, track.total[TX], elapsed_s, found):
            life.is_over, life.told = True, None
            log.info("a job is not like it was before", job=job.name)
            return found
        life.told = self._told(life, known, job, track)
        return life.told or found

    def expected(self, jobs: Iterable[LiveJob]) -> dict[str, RememberedJob]:
        """Return those of these jobs that ran before and are not measured yet, with what they were
        like."""
        found = {}
        for job in jobs:
            life, key = self._lives.get(job.name), remembered.key_of(job)
            known = None if key is None or (life and life.is_over) else self._jobs.recall(key)
            if known is not None:
                found[job.name] = known
        return found

    def keep(self, jobs: Container[str]) -> None:
        """Forget how far the others are: they have ended, and what was learned of them stays."""
        for name in [name for name in self._lives if name not in jobs]:
            del self._lives[name]

    def recalled(self, name: str) -> RememberedFigures | None:
        """Return what a job is planned by, as long as it is by what it was like before."""
        life = self._lives.get(name)
        if life is None or life.told is None:
            return None
        return RememberedFigures(period_s=life.told.period_s, tx_bytes=life.told.tx_bytes)

    def _told(
        self, life: _Life, known: RememberedJob, job: LiveJob, track: Track
    ) -> JobProfile | None:
        silent_s = (self._clock_ns() - track.last_ns) / NS
        if silent_s >= max(SENDING_WITHIN_S, SILENT_PERIODS * known.period_s):
            return None
        to = frozenset(map(str, track.to))
        before = life.told
        is_same = before is not None and before.weight == job.weight and life.to == to
        if is_same and life.known is known:
            return before
        if before is None:
            log.info("a job starts with what was learned before", job=job.name)
        life.known, life.to = known, to
        shares = [(str(one), share[TX]) for one, share in track.shares().items()]
        return remembered.recalled(known, job, shares, host_name(self._host.config), time.time())

    @property
    def _path(self) -> Path:
        return Path(self._host.config.agent.run_dir) / memory_file.NAME
