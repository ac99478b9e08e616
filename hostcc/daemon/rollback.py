"""Undo what an agent left behind when none runs: by its journal, and by what the kernel shows.

No step waits for the disk, and one that fails keeps no other from being taken.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from hostcc.bpf.loader.errors import BpfError
from hostcc.daemon.changes import elsewhere, kinds, leftovers
from hostcc.daemon.changes import path_kinds as paths
from hostcc.daemon.changes import steering_undo as undo
from hostcc.daemon.changes.journal import Journal
from hostcc.daemon.enforcement import MakeBackend, MakeTree, kernel_backend
from hostcc.daemon.jobs import exiting
from hostcc.daemon.jobs.views import rollback
from hostcc.daemon.lockfile import AgentLock
from hostcc.errors import HostccError, NoAgentError
from hostcc.measure.rdma import HostRdma
from hostcc.mltcp.dcqcn import KIND as DCQCN
from hostcc.mltcp.dcqcn_knobs import Knobs
from hostcc.model import Change
from hostcc.paths import egress, egress_kernel
from hostcc.paths.marking import JobMark, MarkKernel
from hostcc.pcie import keeper
from hostcc.system.cgroups import CgroupTree
from hostcc.system.namespaces import all_pids, opened
from hostcc.verbs import plan
from hostcc.version import version

_NAME = re.compile(r"hcc_([0-9a-z]{4})_\w+\Z")


def offline(
    run_dir: Path,
    make_backend: MakeBackend = kernel_backend,
    make_tree: MakeTree = CgroupTree,
    *,
    marks_only: bool = False,
) -> dict[str, Any]:
    """Roll back the agent of `run_dir`, or only its marks on connections.

    Raises HostccError when an agent holds it, NoAgentError when there is nothing to go by.
    """
    at = leftovers.base_of(run_dir)
    if not (run_dir / "journal.jsonl").exists() and at is None:
        raise NoAgentError(f"no agent runs, and {run_dir} has no journal of an earlier one")
    lock = AgentLock(run_dir)
    lock.acquire()
    try:
        journal = Journal(run_dir)
        journal.open(version(), undoing=True)
        _, other = leftovers.reconcile(journal, at)
        found = list(journal.active.values())
        undo = _undo_marks if marks_only else _undo
        problems = other.problems + undo(journal, make_backend, make_tree)
        journal.close("rolled back without an agent")
    finally:
        lock.release()
    undone = [change.id for change in found if change.id not in journal.active]
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
    return groups, make_tree(Path(base.target).parent if base else Path("/"))


def _undo(journal: Journal, make_backend: MakeBackend, make_tree: MakeTree) -> list[str]:
    active = dict(journal.active)
    groups, tree = _groups(active, make_tree)
    steps: dict[str, Callable[[], list[str]]] = {
        "sockets": lambda: _restore_sockets(active, groups, tree, make_backend),
        "counters": lambda: _unbind_counters(journal, active),
        "RDMA": lambda: _end_rdma(journal),
        "steering": lambda: _unsteer(journal, active),
        "marks": lambda: _take_marks(journal, groups, tree),
        "queues": lambda: _remove_queues(journal),
        "jobs": lambda: _dissolve(journal, active, groups, tree),
    }
    return _each(steps)


def rest(journal: Journal) -> list[str]:
    """Undo what outlives an agent and none of its parts has come to; what could not be, in words.

    May run commands, so it takes its time.
    """
    active = dict(journal.active)
    return _each(
        {
            "counters": lambda: _unbind_counters(journal, active),
            "RDMA": lambda: _end_rdma(journal),
            "steering": lambda: _unsteer(journal, active),
            "queues": lambda: _remove_queues(journal),
        }
    )


def _each(steps: Mapping[str, Callable[[], list[str]]]) -> list[str]:
    problems = []
    for name, step in steps.items():
        try:
            problems += step()
        except (BpfError, OSError, HostccError) as error:  # the rest is undone all the same
            problems.append(f"{name}: {error}")
    return problems


def _dissolve(
    journal: Journal, active: Mapping[str, Change], groups: Mapping[str, Path], tree: CgroupTree
) -> list[str]:
    """Jobs' processes go back, their groups and the directory of the groups go."""
    problems, how, base = [], "rolled back", active.get(kinds.BASE)
    journal.undone(kinds.ended_with_agent(active.values()), how)
    stuck = {
        path: tree.move_out(path, kinds.origins(active.values(), job))
        for job, path in groups.items()
        if tree.populated(path)
    }
    exiting.wait(tree, groups.values())
    for job, path in groups.items():
        if tree.exists(path) and not tree.remove(path):
            problems.append(f"{path}: processes {stuck.get(path) or 'of others'} are still in it")
            continue
        members = kinds.members(active.values(), job)
        journal.undone([*(one.id for one in members), f"{kinds.GROUP}:{job}"], how)
    if base is not None:
        if not tree.exists(tree.base) or tree.remove(tree.base):
            journal.undone([kinds.BASE], how)
        else:
            problems.append(f"{base.target}: somebody else uses it, left in place")
    return problems


def _end_rdma(journal: Journal) -> list[str]:
    """Shared memory goes; NICs get back the parameters that they had."""
    those = list(journal.active.values())
    for change in those:
        if change.what in (kinds.RDMA_PLAN, kinds.SEMAPHORES):
            gone = plan.remove if change.what == kinds.RDMA_PLAN else keeper.remove
            gone(Path(change.target))
            journal.undone([change.id], "rolled back")
    left = Knobs().undo([change for change in those if change.what == DCQCN], journal)
    return [f"{change.target}: {change.before} could not be written back" for change in left]


def _unbind_counters(journal: Journal, active: Mapping[str, Change]) -> list[str]:
    """RDMA ports get back to counting as they did."""
    problems = []
    for change in active.values():
        if change.what == kinds.RDMA:
            why = HostRdma().unbind(*kinds.port_of(change.id))
            if why:
                problems.append(f"{change.target}: counters stay bound by process: {why}")
            else:
                journal.undone([change.id], "rolled back")
    return problems


def _unsteer(journal: Journal, active: Mapping[str, Change]) -> list[str]:
    """Flows leave as their sockets make them, and the kernel gives out all ports again."""
    problems = []
    for change in reversed(list(active.values())):
        if change.what in undo.KINDS:
            why = undo.undo(change)
            if why:
                problems.append(f"{change.target}: {why}")
            else:
                journal.undone([change.id], "rolled back")
    return problems


def _take_marks(journal: Journal, groups: Mapping[str, Path], tree: CgroupTree) -> list[str]:
    """Sockets of jobs lose the marks of an agent whose guard was killed, too."""
    left = [change for change in journal.active.values() if change.what == paths.MARKS]
    marks = {paths.job_of(change): paths.tos_of(change) for change in left}
    if not left:
        return []
    try:
        with MarkKernel() as kernel, opened(all_pids()) as where:
            slots = {job: slot for slot, job in enumerate(sorted(marks), 1)}
            for job, slot in slots.items():
                kernel.set_job(slot, JobMark(stray=marks[job]))
            kernel.set_cgroup_ids(
                {
                    number: slots[job]
                    for job, path in groups.items()
                    if job in slots
                    for number in tree.ids(path)
                }
            )
            kernel.walk(where)
    except (BpfError, OSError) as error:
        return [f"open sockets keep the marks of the dead agent: {error}"]
    unseen = elsewhere.marks_hidden(left)
    journal.undone([change.id for change in left if change not in unseen], "rolled back")
    return [f"{one.target}: its agent's network namespace is not seen here" for one in unseen]


def _remove_queues(journal: Journal) -> list[str]:
    """Devices get the kernel's default queue again."""
    problems = []
    for change in [one for one in journal.active.values() if one.what == egress.QUEUES]:
        why = "" if change.place or _has_queues(change.target) else "nothing says where they are"
        why = why or egress_kernel.remove(change.target)
        if why:
            problems.append(f"{change.target}: queues stay: {why}")
        else:
            journal.undone([change.id], "rolled back")
    return problems


def _has_queues(device: str) -> bool:
    try:
        found = egress_kernel.root(device)
    except HostccError:
        return False
    return found is not None and found.ours


def _restore_sockets(
    active: Mapping[str, Change], groups: Mapping[str, Path], tree: CgroupTree, make: MakeBackend
) -> list[str]:
    """Switch sockets that still run the dead agent's congestion control to the default.

    The same programs under the same names recognise them.
    """
    names = {
        change.id.partition(":")[2]: match[1]
        for change in active.values()
        if change.what == kinds.CA and (match := _NAME.match(change.target))
    }
    if not names:
        return []
    try:
        backend = make(next(iter(names.values())), list(names), 1.5)
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
