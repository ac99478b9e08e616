"""Finds the jobs' existing sockets in all namespaces, and switches or lists them.

A walk over all sockets takes a second where there are many: the agent has a thread for it
(`new_walker`), in which walks run one after the other.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from hostcc.config.sections.job import JobRequest
from hostcc.daemon.isolated_steps import reason
from hostcc.errors import HostccError
from hostcc.limits import MAX_CGROUPS
from hostcc.log import get_logger
from hostcc.mltcp.backend import MltcpBackend, Records, SwitchResult
from hostcc.mltcp.params import JobParams
from hostcc.system.cgroups import CgroupTree
from hostcc.system.namespaces import all_pids, opened

T = TypeVar("T")

log = get_logger("jobs")


@dataclass
class Job:
    """A job as it is on this host now."""

    name: str
    slot: int
    wishes: JobRequest
    """What was asked for it."""
    declared: JobRequest = field(default_factory=JobRequest)
    """What its processes' environment asks for, where nobody has asked otherwise."""
    group: Path | None = None
    """Its cgroup, when `hostcc run` started it."""
    group_id: int = 0
    followed: dict[Path, int] = field(default_factory=dict)
    """Cgroups of others that hold its processes only, and their ids."""
    how: str = ""
    """How discovery recognised it; empty: it came by `hostcc run` or a rule."""
    rule: bool = False
    """Whether port rules name it."""
    params: JobParams | None = None
    """Parameters that were last written to the kernel."""
    keep_until: float = 0.0
    """Monotonic seconds until which an empty cgroup is not removed."""

    emptied: bool = False
    """Whether its own cgroup had no process at the last check, and was kept."""

    @property
    def asked(self) -> JobRequest:
        """All that is asked for it."""
        return self.wishes.over(self.declared)

    @property
    def ids(self) -> dict[Path, int]:
        """All cgroups that hold its processes, and their ids."""
        return self.followed if self.group is None else {self.group: self.group_id, **self.followed}

    @property
    def groups(self) -> tuple[Path, ...]:
        """All cgroups that hold its processes."""
        return (*((self.group,) if self.group else ()), *self.followed)


class InlineWalker(Executor):
    """Runs a walk in the calling thread; `submit` raises what the walk raises."""

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """A future that is done."""
        done: Future[T] = Future()
        done.set_result(fn(*args, **kwargs))
        return done


def new_walker() -> Executor:
    """Make the thread for walks; it begins with the first one."""
    return ThreadPoolExecutor(1, "walks")


async def walked(walk: Future[T]) -> T:
    """Await the result of a walk.  Raises what it raised; HostccError when it was cancelled."""
    try:
        return await asyncio.wrap_future(walk)
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if walk.cancelled() and task is not None and not task.cancelling():
            raise HostccError("the agent has let go of its sockets") from None
        raise


def copies(jobs: Iterable[Job]) -> list[Job]:
    """Copy jobs as they are now, for another thread."""
    return [replace(job, followed=dict(job.followed)) for job in jobs]


class Sockets:
    """Walks over sockets with a backend; `everywhere`: in containers' namespaces too.

    `walker`: runs the walks.  A walk uses the jobs as they were when it was asked for.
    """

    def __init__(
        self, backend: MltcpBackend, tree: CgroupTree, everywhere: bool, walker: Executor
    ) -> None:
        self._backend = backend
        self._tree = tree
        self._everywhere = everywhere
        self._walker = walker
        self.cost_s = 0.0
        """Processor time of the last walk in seconds, without that in other namespaces."""

    def switch(
        self, jobs: Iterable[Job], only: Job | None = None, to_default: bool = False
    ) -> Future[SwitchResult]:
        """Give the sockets of `only`, or of all `jobs`, their congestion control."""
        known, slot = copies(jobs), only.slot if only else 0
        those = [job for job in known if slot in (0, job.slot)]
        switch = self._backend.switch_sockets
        return self._walk(known, those, lambda where: switch(where, slot, to_default))

    def flows(self, jobs: Iterable[Job]) -> Future[Records]:
        """One row per connection of `jobs`, struct hcc_flow_record."""
        known = copies(jobs)
        return self._walk(known, known, self._backend.flows)

    def _walk(
        self,
        known: Collection[Job],
        those: Collection[Job],
        visit: Callable[[list[Path | None]], T],
    ) -> Future[T]:
        def walk() -> T:
            began = time.thread_time()
            self._publish_groups(known)
            with self.namespaces(those) as where:
                found = visit(where)
            self.cost_s = time.thread_time() - began
            return found

        try:
            return self._walker.submit(walk)
        except RuntimeError:  # it was shut down
            raise HostccError("the agent has let go of its sockets") from None

    def _publish_groups(self, jobs: Iterable[Job]) -> None:
        """Write to the kernel which cgroups, nested ones included, are which job's."""
        self._backend.set_cgroup_ids(self.groups(jobs))

    def groups(self, jobs: Iterable[Job]) -> dict[int, int]:
        """Id of each cgroup of the jobs, nested ones included -> slot."""
        ids = {
            number: job.slot
            for job in jobs
            for group in job.groups
            for number in self._tree.ids(group)
        }
        return dict(list(ids.items())[:MAX_CGROUPS])

    def namespaces(
        self, jobs: Iterable[Job], *, others: bool = False
    ) -> AbstractContextManager[list[Path | None]]:
        """Open the namespaces with sockets of the jobs, ours first; `others`: all others, too."""
        if not self._everywhere:
            return opened(())
        if others or any(job.rule for job in jobs):
            return opened(all_pids())
        return opened(pid for job in jobs for group in job.groups for pid in self._tree.pids(group))


class SocketMoves:
    """Walks that switch sockets and may not be over."""

    def __init__(self) -> None:
        self._walks: list[Future[SwitchResult]] = []

    def ask(
        self, sockets: Sockets, jobs: Collection[Job], those: Collection[Job], to_default: bool
    ) -> None:
        """Give the sockets of `those` of all `jobs` their congestion control."""
        if not those:
            return
        targets: list[Job | None] = [None] if len(those) == len(jobs) else [*those]
        self._walks = [walk for walk in self._walks if not walk.done()]
        for only in targets:
            walk = sockets.switch(jobs, only, to_default)
            whose = "all" if only is None else only.name
            walk.add_done_callback(partial(say_switched, whose, to_default))
            self._walks.append(walk)

    async def over(self) -> None:
        """Wait until all walks are over.  Raises what they raised."""
        while self._walks:
            await walked(self._walks.pop(0))

    def wait(self) -> None:
        """The same, blocking."""
        while self._walks:
            self._walks.pop(0).result()


def say_switched(jobs: str, to_default: bool, walk: Future[SwitchResult]) -> None:
    """Log the result of a walk that switched sockets; called in the thread of the walk."""
    if walk.cancelled():
        return
    if (error := walk.exception()) is not None:
        log.failure("sockets not switched", jobs=jobs, reason=reason(error))
        return
    done = walk.result()
    if done.switched or done.failed:
        log.info(
            "switched sockets",
            jobs=jobs,
            to="the host's default" if to_default else "hostcc",
            seen=done.seen,
            switched=done.switched,
            failed=done.failed,
        )
