"""Whose is a process: its cgroup, or its number where the job has no cgroup of its own.

Serves what knows processes only: GPUs, marks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hostcc.system import procfs
from hostcc.system.process_scan import read
from hostcc.system.processes import ProcessRef


def owner(group: str, groups: Mapping[str, str]) -> str | None:
    """The job whose cgroup is `group` or the nearest one above it."""
    at = group
    while at and at != "/":
        if at in groups:
            return groups[at]
        at = at.rpartition("/")[0]
    return None


@dataclass(frozen=True)
class Owners:
    """Which job a process belongs to."""

    groups: Mapping[str, str] = field(default_factory=dict)
    """cgroup v2 path (as in /proc/PID/cgroup) -> job."""
    v1_groups: Mapping[str, str] = field(default_factory=dict)
    """cgroup v1 path -> job."""
    loose: Mapping[ProcessRef, str] = field(default_factory=dict)
    """Processes that no cgroup tells -> job."""
    proc: Path = Path("/proc")

    def of(self, pid: int) -> str | None:
        """The job of a process; None when it is gone or nobody's."""
        second, first = procfs.cgroups(read(f"{self.proc}/{pid}/cgroup", 65536))
        job = owner(second, self.groups)
        if job is None and self.v1_groups:
            job = next((found for path in first if (found := owner(path, self.v1_groups))), None)
        if job is None and self.loose:
            stat = procfs.stat(read(f"{self.proc}/{pid}/stat", 4096))
            job = None if stat is None else self.loose.get(ProcessRef(pid, stat.started))
        return job

    def of_all(self, pids: Iterable[int]) -> dict[int, str]:
        """Process -> job, of those that are somebody's."""
        return {pid: job for pid in pids if (job := self.of(pid)) is not None}
