"""How each kind of change that outlives an agent is undone.

Parts that stop, an agent that starts or rolls back, and `hostcc rollback` without an agent undo by
this table.  What is not in it ends with the agent, or is undone for a whole job at once: cgroups
(jobs/group_removal.py), congestion control of open sockets, DSCP marks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from hostcc.daemon.changes import kinds, path_kinds, steering_undo
from hostcc.daemon.changes.journal import Journal
from hostcc.errors import HostccError
from hostcc.measure.rdma_counters import HostRdma, RdmaCounters
from hostcc.mltcp.dcqcn import KIND as DCQCN
from hostcc.mltcp.dcqcn_knobs import Knobs
from hostcc.model import Change
from hostcc.paths import egress_kernel, egress_queues
from hostcc.pcie import keeper
from hostcc.verbs import plan_region

STEERING = (path_kinds.HOOKS, path_kinds.PORTS)
"""In the order in which they are undone."""
SHARED_MEMORY = (kinds.RDMA_PLAN, kinds.SEMAPHORES)


class Scope(StrEnum):
    """What a change is part of, which says from where it can be undone."""

    NETWORK = "network namespace"
    """It ends with the namespace."""
    NIC = "NIC"
    """Reached in the namespace of the NIC.  When that ends, the NIC moves to the first one."""
    NIC_FILES = "files of a NIC"
    """The same, by the files of a sysfs or debugfs mount."""
    DIRECTORY = "directory"
    """Seen in mount namespaces that show the directory."""


@dataclass(frozen=True)
class Mechanism:
    """One kind of change: what it is part of, and its undoing."""

    scope: Scope
    undo: Callable[[Change, Journal], str]
    """Returns why the change could not be undone; empty when it is, and the caller records it,
    unless this has recorded another reason.  Blocks.  Raises BpfError, HostccError, OSError."""
    problem: str = ""
    """Begins the sentence that says why."""


def unbind_counters(change: Change, counters: RdmaCounters) -> str:
    """Have an RDMA port count as it did; why not."""
    return counters.unbind(*kinds.port_of(change))


def remove_queues(change: Change) -> str:
    """Give a device the kernel's default queue; why not."""
    if change.place is None and not _has_queues(change.target):
        return "nothing says where they are"
    return egress_kernel.remove(change.target)


def write_rates_back(change: Change, journal: Journal) -> str:
    """Give a NIC the DCQCN parameter that it had; why not."""
    left = Knobs().undo([change], journal)
    return f"{change.before} could not be written back" if left else ""


def remove_shared_memory(change: Change) -> str:
    """Remove a file that jobs map, if it is one of ours."""
    remove = plan_region.remove if change.what == kinds.RDMA_PLAN else keeper.remove
    remove(Path(change.target))
    return ""


MECHANISMS: Mapping[str, Mechanism] = {
    kinds.RDMA: Mechanism(
        Scope.NIC,
        lambda change, _: unbind_counters(change, HostRdma()),
        "counters stay bound by process: ",
    ),
    DCQCN: Mechanism(Scope.NIC_FILES, write_rates_back),
    egress_queues.QUEUES: Mechanism(
        Scope.NETWORK, lambda change, _: remove_queues(change), "queues stay: "
    ),
    **{
        kind: Mechanism(Scope.NETWORK, lambda change, _: steering_undo.undo(change))
        for kind in STEERING
    },
    **{
        kind: Mechanism(Scope.DIRECTORY, lambda change, _: remove_shared_memory(change))
        for kind in SHARED_MEMORY
    },
}
"""Kind of change -> how it is undone."""


def undo(change: Change, journal: Journal) -> str:
    """Undo a change of one of these kinds, in the calling thread's namespaces; why not."""
    return MECHANISMS[change.what].undo(change, journal)


def undo_all(journal: Journal, those: Collection[str], how: str) -> list[str]:
    """Undo all changes of some kinds, kind by kind, and have the journal say so.

    Returns what could not be undone, in words.  May run commands.  Raises like `Mechanism.undo`.
    """
    problems = []
    active = list(journal.active.values())
    for change in [one for kind in those for one in active if one.what == kind]:
        if why := undo(change, journal):
            problems.append(f"{change.target}: {MECHANISMS[change.what].problem}{why}")
        else:
            journal.undone([change.id], how)
    return problems


def _has_queues(device: str) -> bool:
    try:
        found = egress_kernel.root(device)
    except HostccError:
        return False
    return found is not None and found.ours
