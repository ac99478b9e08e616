"""Which jobs have to be looked at: those in whose cgroups something is new."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from hostcc.daemon.jobs.sockets import Job
from hostcc.system.cgroup_events import GroupEvents


class Attention:
    """Looks at a few at a time, and at each in its turn."""

    def __init__(self) -> None:
        self._events = GroupEvents()
        self._stirred: set[Path] = set()
        """Groups of which something is new that nobody has looked at."""
        self._edition = -1
        """Of the jobs whose groups are watched."""
        self._turn = 0

    def due(self, jobs: Collection[Job], edition: int, most: int) -> list[Job]:
        """At most so many of these; `edition`: another one whenever they may have other groups."""
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

    def looked_at(self, job: Job) -> None:
        """It has had its turn."""
        self._turn += 1
        self._stirred.difference_update(job.groups)

    def close(self) -> None:
        """Watch nothing any more."""
        self._events.close()
