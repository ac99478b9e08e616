"""Finds the jobs' existing sockets, wherever they are, and switches or lists them."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from hostcc.cgroups import CgroupTree
from hostcc.limits import MAX_CGROUPS
from hostcc.mltcp.backend import MltcpBackend, Records, SwitchResult
from hostcc.mltcp.params import JobParams
from hostcc.namespaces import all_pids, opened
from hostcc.sections.job import Wishes


@dataclass
class Job:
    """A job as it is on this host now."""

    name: str
    slot: int
    wishes: Wishes
    group: Path | None = None
    """Its cgroup, when `hostcc run` started it."""
    group_id: int = 0
    followed: dict[Path, int] = field(default_factory=dict)
    """Cgroups of others that hold its processes only, and their ids."""
    how: str = ""
    """What it was recognised by, when it was found; empty: by `hostcc run` or a rule."""
    rule: bool = False
    """Whether port rules name it."""
    params: JobParams | None = None
    """What the kernel was told last."""
    keep_until: float = 0.0
    """Monotonic seconds until which an empty cgroup is not removed."""

    emptied: bool = False
    """Whether its own cgroup had no process when it was last looked at, and was kept."""

    @property
    def ids(self) -> dict[Path, int]:
        """All cgroups that hold its processes, and their ids."""
        return self.followed if self.group is None else {self.group: self.group_id, **self.followed}

    @property
    def groups(self) -> tuple[Path, ...]:
        """All cgroups that hold its processes."""
        return (*((self.group,) if self.group else ()), *self.followed)


class Sockets:
    """Visits sockets by way of a backend; `everywhere`: in containers' namespaces too."""

    def __init__(self, backend: MltcpBackend, tree: CgroupTree, everywhere: bool) -> None:
        self._backend = backend
        self._tree = tree
        self._everywhere = everywhere

    def switch(
        self, jobs: Collection[Job], only: Job | None = None, to_default: bool = False
    ) -> SwitchResult:
        """Give the sockets of `only`, or of all `jobs`, their congestion control."""
        self.publish_groups(jobs)
        with self.namespaces([only] if only else jobs) as where:
            return self._backend.switch_sockets(where, only.slot if only else 0, to_default)

    def flows(self, jobs: Collection[Job]) -> Records:
        """One row per connection of `jobs`, struct hcc_flow_record."""
        self.publish_groups(jobs)
        with self.namespaces(jobs) as where:
            return self._backend.flows(where)

    def publish_groups(self, jobs: Iterable[Job]) -> None:
        """Tell the kernel side which cgroups, nested ones included, are whose now."""
        self._backend.set_cgroup_ids(self.groups(jobs))

    def groups(self, jobs: Iterable[Job]) -> dict[int, int]:
        """Ids of the jobs' cgroups, nested ones included -> slot."""
        ids = {
            number: job.slot
            for job in jobs
            for group in job.groups
            for number in self._tree.ids(group)
        }
        return dict(list(ids.items())[:MAX_CGROUPS])

    def namespaces(self, jobs: Iterable[Job]) -> AbstractContextManager[list[Path | None]]:
        """Those in which the jobs' sockets are, our own first; open while it is entered."""
        if not self._everywhere:
            return opened(())
        if any(job.rule for job in jobs):
            return opened(all_pids())
        return opened(pid for job in jobs for group in job.groups for pid in self._tree.pids(group))
