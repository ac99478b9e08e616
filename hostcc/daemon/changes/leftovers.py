"""What agents have left in the kernel, by their own handles and names, whatever a journal says.

Recognised: a root queue with our handle, programs of ours at a device's hooks, and what a directory
of cgroups says that an agent had in force (imprint.py), among it reserved ports, which look like
anybody's.  What another agent of this network namespace claims is left alone.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

from hostcc.bpf.loader.errors import BpfError
from hostcc.daemon.changes import elsewhere, path_kinds
from hostcc.daemon.changes.elsewhere import Outcome
from hostcc.daemon.changes.imprint import Imprint, everywhere
from hostcc.daemon.changes.journal import Journal, recorded
from hostcc.daemon.changes.steering_undo import network_namespace
from hostcc.model import Change
from hostcc.paths import egress, egress_kernel, hooks
from hostcc.paths.steer_kernel import PROGRAMS
from hostcc.system.cgroups import find_mount


def reconcile(journal: Journal, base: Path | None) -> tuple[list[Change], Outcome]:
    """Have the journal say what is left here, for whoever undoes what it says.

    Returns what is new in it, and what became of what is in other namespaces.
    `base`: the directory of cgroups of the agent whose journal it is; None: it has none.
    """
    new = journal.adopt(recorded(Imprint(base))) if base is not None else []
    outcome = elsewhere.settle(journal)
    return new + _discover(journal), outcome


def _discover(journal: Journal) -> list[Change]:
    """Take over what is here and known by its name only."""
    new: list[Change] = []
    if made := [one for one in by_name() if one.id not in journal.active]:
        taken = set(_claimed(journal.path.parent))
        new += journal.adopt(one for one in made if one.id not in taken)
    return new


def base_of(run_dir: Path) -> Path | None:
    """The directory of cgroups of the agent with this run directory; None: there is none."""
    mount, folder = find_mount(), str(run_dir.resolve())
    found = everywhere(mount) if mount is not None else ()
    return next((one.base for one in found if one.owner[0] == folder), None)


def by_name() -> list[Change]:
    """Queues and programs in this network namespace that are some agent's."""
    netns, devices = network_namespace(), socket.if_nameindex()
    steered = [device for ifindex, device in devices if _has_hooks(ifindex)]
    queues = [egress.found(device) for device in egress_kernel.ours()]
    return [*queues, *(path_kinds.hooks(device, netns) for device in steered)]


def _has_hooks(ifindex: int) -> bool:
    try:
        return any(hooks.attached(ifindex, hook, [name]) for hook, name in PROGRAMS.items())
    except (BpfError, OSError):
        return False


def _claimed(run_dir: Path) -> Iterator[str]:
    """Ids of changes of other agents in this network namespace."""
    mount, here = find_mount(), (str(run_dir.resolve()), network_namespace())
    for one in everywhere(mount) if mount is not None else ():
        folder, netns = one.owner
        if netns == here[1] and folder != here[0]:
            yield from (change.id for change in recorded(one))
