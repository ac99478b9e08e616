"""Jobs that ran on when their agent ended, as its journal keeps them for the next one.

Their processes are back in the cgroups that they came from.  A job's own cgroup stays, empty,
since connections belong for good to the cgroup in which they were opened.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Annotated

import msgspec

from hostcc.config.sections.job import JobRequest
from hostcc.config.sections.words import Bytes, Flop, Weight
from hostcc.daemon.changes import kinds
from hostcc.daemon.changes.journal import Journal
from hostcc.daemon.jobs.sockets import Job
from hostcc.errors import HostccError
from hostcc.log import get_logger
from hostcc.model import Change
from hostcc.system.cgroups import CgroupTree
from hostcc.system.processes import ROOT_UID
from hostcc.system.procfs import Stat
from hostcc.system.quota import Owner

log = get_logger("jobs")
MAX_KEPT_PROCESSES = 16384
"""Processes that are kept of all jobs together; of a job with more than its share, the eldest."""
_REF = r"[0-9]{1,10}/[0-9]{1,20}"


class KeptJob(msgspec.Struct, frozen=True):
    """A job as `to` of its `job-cgroup` change describes it; checked, since files can be edited."""

    weight: Weight | None = None
    bytes_per_iteration: Bytes | None = None
    flops: Flop | None = None
    uid: Annotated[int, msgspec.Meta(ge=0, le=2**32 - 2)] | None = None
    """In whose quota it counts; null: root asked for it."""
    by_root: bool = False
    """Whether root has set parameters of a user's job."""
    nested: bool = False
    """Whether its cgroup is below another one, whose limits hold for it."""
    cgroup_id: int = 0
    processes: Annotated[str, msgspec.Meta(pattern=rf"^({_REF}( {_REF})*)?\Z")] = ""
    """PID/START of those that were in it when it was let go, START as in /proc/PID/stat."""

    @property
    def wishes(self) -> JobRequest:
        """What its owner asked for."""
        return JobRequest(self.weight, self.bytes_per_iteration, self.flops, self.by_root)

    @property
    def started(self) -> dict[int, int]:
        """Process -> when it started."""
        parts = (word.split("/") for word in self.processes.split())
        return {int(pid): int(started) for pid, started in parts}


def job_of(change: Change | None) -> KeptJob:
    """Decode a `job-cgroup` change; an empty KeptJob, when no agent would write such a one."""
    try:
        return msgspec.convert(change.after if change else {}, KeptJob)
    except msgspec.ValidationError:
        return KeptJob()


def process_fields(
    cgroup_id: int, processes: Mapping[int, Stat], most: int
) -> dict[str, int | str]:
    """Fields of KeptJob that say which processes were in the job."""
    eldest = sorted(processes, key=lambda pid: processes[pid].started)[:most]
    words = " ".join(f"{pid}/{processes[pid].started}" for pid in eldest)
    return {"cgroup_id": cgroup_id, "processes": words}


def keeping(
    jobs: Collection[Job],
    tree: CgroupTree,
    beside: Callable[[str], list[int]],
    note: Callable[[Job], Mapping[str, float | int | str | None]],
    how: str,
    journal: Journal,
) -> Generator[None, None, set[str]]:
    """Write the jobs that have processes to the journal, for the next agent; one job at each step.

    Returns their names, none when the journal cannot be written.  `beside`: a job's processes that
    are not in its cgroup; `note`: the other fields that are kept.
    """
    found: dict[str, Change] = {}
    most = MAX_KEPT_PROCESSES // max(1, len(jobs))
    for job in jobs:
        pids = beside(job.name) + (tree.pids(job.group) if job.group is not None else [])
        if there := tree.living(pids):
            after = {**note(job), **process_fields(job.group_id, there, most)}
            found[job.name] = kinds.job_group(job.name, tree.path(job.name), after, how)
        yield
    try:
        journal.begin(*found.values())
    except HostccError as error:  # what can be undone is, all the same
        log.failure("the next agent will not know a job", job=" ".join(found), reason=str(error))
        return set()
    return set(found)


LeftGroups = Mapping[Path, tuple[KeptJob, list[Change]]]
"""Cgroup -> its job as the journal keeps it, and the processes that return to it."""


def left_groups(active: Mapping[str, Change], tree: CgroupTree) -> LeftGroups:
    """Read the cgroups of an earlier agent; also all processes, when some may have to return."""
    tree.nested = nested_groups(active)
    processes = cache(tree.processes)
    known = {group: active.get(f"{kinds.GROUP}:{group.name}") for group in tree.children()}
    return {
        group: (job_of(change), returning(change, group, tree, processes))
        for group, change in known.items()
    }


def nested_groups(active: Mapping[str, Change]) -> dict[str, Path]:
    """The jobs whose cgroups are below others, and those cgroups."""
    return {
        job: Path(change.target)
        for change in active.values()
        if (job := kinds.job_of_group(change)) and job_of(change).nested
    }


def let_go(change: Change, tree: CgroupTree) -> bool:
    """Whether an agent has let go of the job of a `job-cgroup` change, and its cgroup is empty."""
    return bool(job_of(change).started) and not tree.populated(Path(change.target))


def asked(journal: Journal, job: str, owner: Owner) -> JobRequest:
    """What was asked for a job of others' cgroups when an earlier agent had it."""
    kept = job_of(journal.active.get(f"{kinds.REQUEST}:{job}"))
    return kept.wishes if kept.uid in (owner, ROOT_UID) else JobRequest()


def lives(group: Path, back: Collection[Change], tree: CgroupTree) -> bool:
    """Whether a cgroup's job goes on; `back`: the processes that return to it."""
    return bool(back) or tree.populated(group)


def returning(
    change: Change | None,
    group: Path,
    tree: CgroupTree,
    processes: Callable[[], Mapping[int, Stat]],
) -> list[Change]:
    """Find the processes that are to enter a job's cgroup again: a `job-member` change of each.

    Empty when the cgroup is not the one that the job had.  `processes`: reads all of this host.
    """
    kept = job_of(change)
    started = kept.started
    if not started or kept.cgroup_id != tree.identity(group):
        return []
    there, homes = processes(), dict[int, str]()
    for pid in _of_job(started, there):
        home = tree.home_of(pid)
        if Path(home).is_relative_to(group):  # an agent died before it had sent it home
            continue
        parent = there[pid].parent
        if started.get(pid) == there[pid].started or homes.get(parent) == home:
            homes[pid] = home
    return [
        kinds.job_member(group.name, pid, home, group, "it was in the job before")
        for pid, home in homes.items()
    ]


def gone(active: Iterable[Change], job: str) -> list[str]:
    """Ids of `job-member` changes of a job whose processes have ended."""
    members = kinds.members(active, job)
    return [one.id for one in members if not Path(f"/proc/{one.target}").exists()]


def _of_job(started: Mapping[int, int], there: Mapping[int, Stat]) -> Iterator[int]:
    """Processes that still live, and children that they have had since; parents first."""
    children: dict[int, list[int]] = {}
    for pid, stat in there.items():
        children.setdefault(stat.parent, []).append(pid)
    last = max(started.values())
    waiting = [pid for pid, at in started.items() if pid in there and there[pid].started == at]
    seen = set(waiting)
    while waiting:
        pid = waiting.pop()
        yield pid
        fresh = [one for one in children.get(pid, ()) if there[one].started >= last]
        waiting += [one for one in fresh if one not in seen]
        seen.update(fresh)
