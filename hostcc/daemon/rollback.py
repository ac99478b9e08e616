"""Roll-back without an agent: by the journal that one left, and by what the kernel shows.

No step waits for the disk, and the others are taken when one fails.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import islice
from pathlib import Path

from hostcc.answers.host import Undone
from hostcc.bpf.loader.errors import BpfError
from hostcc.daemon.changes import elsewhere, kinds, leftovers, mechanisms
from hostcc.daemon.changes import path_kinds as paths
from hostcc.daemon.changes.journal import Journal
from hostcc.daemon.enforcement import MakeBackend, MakeTree, kernel_backend
from hostcc.daemon.hold import HoldFile
from hostcc.daemon.jobs.group_removal import GroupRemoval
from hostcc.daemon.jobs.released import let_go, nested_groups
from hostcc.daemon.jobs.views import rollback
from hostcc.daemon.lockfile import AgentLock
from hostcc.errors import HostccError, NoAgentError
from hostcc.limits import MAX_CGROUPS
from hostcc.mltcp.dcqcn import KIND as DCQCN
from hostcc.model import Change
from hostcc.paths.egress_queues import QUEUES
from hostcc.paths.mark_kernel import MarkKernel
from hostcc.system.cgroups import CgroupTree
from hostcc.system.namespaces import all_pids, opened
from hostcc.system.slices import at_once
from hostcc.version import version

STALE_S = 1.5
"""Heartbeat age at which the programs that recognise sockets act plainly; none is written here."""
Step = Callable[[], list[str]]
"""Undoes something; what could not be undone, in words."""
LASTING = {
    "counters": (kinds.RDMA,),
    "RDMA": (*mechanisms.SHARED_MEMORY, DCQCN),
    "steering": mechanisms.STEERING,
    "queues": (QUEUES,),
}
"""Steps in their order, and the kinds of changes that each undoes."""
_CONTROL_NAME = re.compile(r"hcc_([0-9a-z]{4})_\w+\Z")


def offline(
    run_dir: Path,
    make_backend: MakeBackend = kernel_backend,
    make_tree: MakeTree = CgroupTree,
    *,
    marks_only: bool = False,
    hold: bool = False,
) -> Undone:
    """Roll back the agent of `run_dir`, or only its marks on connections.

    `hold`: agents that start only observe, until `hostcc unfair`.
    Raises HostccError when an agent holds it, NoAgentError when there is nothing to go by.
    """
    at = leftovers.base_of(run_dir)
    if not _has_journal(run_dir) and at is None and not (hold and _keeps_holds(run_dir)):
        raise NoAgentError(f"no agent runs, and {run_dir} has no journal of an earlier one")
    lock = AgentLock(run_dir)
    lock.acquire()
    try:
        if hold:
            HoldFile(run_dir).write("rollback", f"hostcc rollback, by uid {os.getuid()}")
        journal = Journal(run_dir)
        journal.open(version(), undoing=True)
        undo = _undo_marks if marks_only else _undo
        answer = _by_journal(journal, at, partial(undo, journal, make_backend, make_tree))
        journal.close("rolled back without an agent")
    finally:
        lock.release()
    return answer


def _has_journal(run_dir: Path) -> bool:
    try:
        return (run_dir / "journal.jsonl").exists()
    except OSError as error:
        raise HostccError(f"{run_dir}: {error.strerror}") from None


def _keeps_holds(run_dir: Path) -> bool:
    """Whether agents of `run_dir` find a hold, although a boot may have emptied it."""
    return HoldFile(run_dir).path.parent != run_dir or run_dir.is_dir()


def left(journal: Journal, make_backend: MakeBackend, make_tree: MakeTree) -> Undone:
    """Roll back what an earlier agent or roll-back has left, for an agent that only observes.

    The next agent still recognises jobs that were let go of.  Blocks.  Raises like `offline`.
    """
    undo = partial(_undo, journal, make_backend, make_tree, keep=True)
    return _by_journal(journal, leftovers.base_of(journal.path.parent), undo)


def _by_journal(journal: Journal, at: Path | None, undo: Step) -> Undone:
    _, other = leftovers.reconcile(journal, at)
    found = list(journal.active)
    problems = other.problems + undo()
    undone = [change_id for change_id in found if change_id not in journal.active]
    return rollback(other.undone + undone, problems, journal.unrecorded, other.gone)


def _undo_marks(journal: Journal, _: MakeBackend, make_tree: MakeTree) -> list[str]:
    return _take_marks(journal, *_groups(journal.active, make_tree))


def _groups(
    active: Mapping[str, Change], make_tree: MakeTree
) -> tuple[dict[str, Path], CgroupTree]:
    """Jobs' directories, and the tree that they are in."""
    groups = {
        job: Path(change.target)
        for change in active.values()
        if (job := kinds.job_of_group(change))
    }
    base = active.get(kinds.BASE)
    tree = make_tree(Path(base.target).parent if base else Path("/"))
    tree.nested = nested_groups(active)
    return groups, tree


def _undo(
    journal: Journal, make_backend: MakeBackend, make_tree: MakeTree, *, keep: bool = False
) -> list[str]:
    active = dict(journal.active)
    groups, tree = _groups(active, make_tree)
    return _each(
        {
            "sockets": lambda: _restore_sockets(active, groups, tree, make_backend),
            **_lasting(journal),
            "marks": lambda: _take_marks(journal, groups, tree),
            "jobs": lambda: _remove_groups(journal, groups, tree, keep=keep),
        }
    )


def rest(journal: Journal) -> list[str]:
    """Undo changes that outlive an agent and that no part has undone.

    Returns what could not be undone, in words.  May run commands, each for a second.
    """
    return _each(_lasting(journal))


def _lasting(journal: Journal) -> dict[str, Step]:
    """Steps that undo what outlives an agent."""
    return {
        name: partial(mechanisms.undo_all, journal, those, "rolled back")
        for name, those in LASTING.items()
    }


def _each(steps: Mapping[str, Step]) -> list[str]:
    problems = []
    for name, step in steps.items():
        try:
            problems += step()
        except (BpfError, OSError, HostccError) as error:  # the rest is undone all the same
            problems.append(f"{name}: {error}")
    return problems


def _remove_groups(
    journal: Journal, groups: Mapping[str, Path], tree: CgroupTree, *, keep: bool
) -> list[str]:
    """Move jobs' processes back; remove their cgroups and the directory of those.

    `keep`: what the next agent recognises jobs by stays.
    """
    how, removal = "rolled back", GroupRemoval(tree, journal)
    has_base = kinds.BASE in journal.active
    active = list(journal.active.values())
    journal.undone(kinds.ended_with_agent(active), how)
    journal.undone([] if keep else kinds.requests(active), how)
    problems = [
        problem
        for job, path in groups.items()
        if not (keep and let_go(journal.active[f"{kinds.GROUP}:{job}"], tree))
        for problem in at_once(removal.remove(job, path, how))
    ]
    removal.wait()
    problems += removal.finish(how)
    return problems + (removal.remove_base(how) if has_base else [])


def _take_marks(journal: Journal, groups: Mapping[str, Path], tree: CgroupTree) -> list[str]:
    """Take DSCP marks off the sockets of jobs, for an agent whose guard was killed, too."""
    left = [change for change in journal.active.values() if change.what == paths.MARKS]
    marks = {paths.job_of(change): paths.stray_of(change) for change in left}
    if not left:
        return []
    try:
        with MarkKernel() as kernel, opened(all_pids()) as where:
            slots = {job: slot for slot, job in enumerate(sorted(marks), 1)}
            for job, slot in slots.items():
                kernel.set_job(slot, marks[job])
            ids = (
                (number, slots[job])
                for job, path in _cgroups(journal.active, groups)
                if job in slots
                for number in tree.ids(path)
            )
            kernel.set_cgroup_ids(dict(islice(ids, MAX_CGROUPS)))
            kernel.walk(where)
    except (BpfError, OSError) as error:
        return [f"open sockets keep the marks of the dead agent: {error}"]
    known = {job for job, _ in _cgroups(journal.active, groups)}
    hidden = elsewhere.marks_hidden(left)
    ruled = [one for one in left if paths.job_of(one) not in known and one not in hidden]
    journal.undone([one.id for one in left if one not in [*hidden, *ruled]], "rolled back")
    why = "known by port rules only: the next agent takes its marks"
    return [
        *(f"{one.target}: its agent's network namespace is not seen here" for one in hidden),
        *(f"{one.target}: {why}" for one in ruled),
    ]


def _cgroups(
    active: Mapping[str, Change], groups: Mapping[str, Path]
) -> Iterator[tuple[str, Path]]:
    """Jobs and their cgroups, those that the dead agent followed, too."""
    yield from groups.items()
    for job, followed in kinds.followed_groups(active.values()).items():
        yield from ((job, path) for path in followed)


def _restore_sockets(
    active: Mapping[str, Change], groups: Mapping[str, Path], tree: CgroupTree, make: MakeBackend
) -> list[str]:
    """Switch sockets that still run the dead agent's congestion control to the default.

    Programs registered under the same names recognise them.
    """
    names = {
        change.id.partition(":")[2]: match[1]
        for change in active.values()
        if change.what == kinds.CA and (match := _CONTROL_NAME.match(change.target))
    }
    if not names:
        return []
    try:
        backend = make(next(iter(names.values())), list(names), STALE_S)
        try:
            ids = {number: 1 for path in groups.values() for number in tree.ids(path)}
            backend.set_cgroup_ids(ids)
            with opened(all_pids()) as where:
                backend.switch_sockets(where, to_default=True)
        finally:
            backend.close()
    except (BpfError, OSError, HostccError) as error:
        return [f"open sockets keep the plain form of the dead agent's control: {error}"]
    return []
