"""Reads what the processes of a phase say, and knows when it is over."""

from __future__ import annotations

import selectors
import time
from collections.abc import Collection, Sequence

from hostcc.lab.errors import LabError
from hostcc.lab.launch import Iteration, Rank
from hostcc.lab.scenario import JobSpec


class Watch:
    """All ranks of a phase; more may come, and jobs may be told to leave."""

    def __init__(self, jobs: Sequence[JobSpec], ranks: Sequence[Rank], later: Collection[str]):
        """`later`: names of jobs that are started in mid-run."""
        self.jobs = jobs
        self.ranks: list[Rank] = []
        self.later = set(later)
        self._leaving: set[str] = set()
        self._selector = selectors.DefaultSelector()
        self.add(ranks)

    def add(self, ranks: Sequence[Rank]) -> None:
        """Read these, too."""
        for rank in ranks:
            self._selector.register(rank.stdout_fd, selectors.EVENT_READ, rank)
        self.ranks += ranks
        self.later -= {rank.job for rank in ranks}

    def poll(self, timeout: float) -> None:
        """Take in what was said within so many seconds.  Raises LabError for a job that fails."""
        for key, _ in self._selector.select(timeout):
            rank: Rank = key.data
            rank.read(time.monotonic())
            if rank.finished:
                self._selector.unregister(rank.stdout_fd)
                _check(rank)

    def wait_ready(self, ranks: Sequence[Rank], patience_s: float) -> None:
        """Until all of them wait for their release.  Raises LabError."""
        deadline = time.monotonic() + patience_s
        while late := [rank for rank in ranks if rank.waits and not rank.ready]:
            self.poll(0.5)
            if time.monotonic() > deadline:
                names = ", ".join(rank.host.name for rank in late)
                raise LabError(f"not ready after {patience_s:g} s: {names}")

    def stop(self, names: Collection[str]) -> None:
        """Tell jobs to leave at their next iteration boundary."""
        self._leaving |= set(names)
        self.later -= set(names)
        for rank in self.job_ranks:
            if rank.job in names:
                rank.tell("stop")

    @property
    def job_ranks(self) -> list[Rank]:
        """Those of jobs."""
        return [rank for rank in self.ranks if not rank.background]

    def iterations(self, job: JobSpec) -> list[Iteration]:
        """Those of the lowest rank that reports any."""
        for rank in self.job_ranks:
            if rank.job == job.name and rank.iterations:
                return rank.iterations
        return []

    @property
    def staying(self) -> list[JobSpec]:
        """Jobs that do not end by themselves."""
        return [job for job in self.jobs if not leaves(job) and job.name not in self._leaving]

    @property
    def least(self) -> int:
        """Iterations of the job that is farthest from its aim, among those that stay."""
        return min((len(self.iterations(job)) for job in self.staying), default=0)

    @property
    def most(self) -> int:
        """Iterations of the job that has the most."""
        return max((len(self.iterations(job)) for job in self.jobs), default=0)

    @property
    def all_leave(self) -> bool:
        """Whether every job ends by itself."""
        return all(leaves(job) for job in self.jobs)

    @property
    def finished(self) -> bool:
        """Whether all jobs have ended."""
        return not self.later and all(rank.finished for rank in self.job_ranks)


def leaves(job: JobSpec) -> bool:
    """Whether a job ends by itself."""
    return bool(job.iterations or job.stop_after_ms or job.command)


def _check(rank: Rank) -> None:
    status = rank.process.wait()
    if status:
        words = " ".join(rank.log.read_text(errors="replace").split())[-400:]
        raise LabError(f"job {rank.job} on {rank.host.name}: exit status {status}: {words}")
