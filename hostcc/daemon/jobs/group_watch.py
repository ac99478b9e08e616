"""Chooses the jobs to check: those whose cgroups have changed."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from hostcc.daemon.jobs.sockets import Job
from hostcc.system.cgroup_events import GroupEvents


class GroupWatch:
    """Watches jobs' cgroups, and gives a few jobs at a time, each in turn."""

    def __init__(self) -> None:
        self._events = GroupEvents()
        self._stirred: set[Path] = set()
        """Cgroups that have changed and whose job was not checked since."""
        self._edition = -1
        """The edition of the jobs whose cgroups are watched."""
        self._turn = 0

    def due(self, jobs: Collection[Job], edition: int, most: int) -> list[Job]:
        """Choose at most so many jobs; `edition` changes whenever their cgroups may have."""
        if self._edition != edition:
            self._edition = edition
            groups = {group: number for job in jobs for group, number in job.ids.items()}
            self._events.watch(groups)
            self._stirred &= groups.keys()
        self._stirred |= self._events.stirred()
        due = [
            job
            for job in jobs
            if job.emptied or (self._stirred and not self._stirred.isdisjoint(job.groups))
        ]
        return [due[(self._turn + i) % len(due)] for i in range(min(most, len(due)))]

    def inspected(self, job: Job) -> None:
        """Count a job as checked."""
        self._turn += 1
        self._stirred.difference_update(job.groups)

    def unseen(self, job: Job) -> None:
        """Have a job checked again that could not be looked at."""
        self._stirred.update(job.groups)

    def close(self) -> None:
        """Stop watching."""
        self._events.close()
