"""Changes that earlier agents have left in the kernel, found without a journal.

Recognised by handle or name: root queues and steering programs.  Everything else is known from the
copy in the attributes of the cgroup directory (attribute_copy.py), reserved ports among it.
What another agent of this network namespace claims is left alone.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

from hostcc.bpf.loader.errors import BpfError
from hostcc.daemon.changes import elsewhere, path_kinds
from hostcc.daemon.changes.attribute_copy import AttributeCopy, everywhere
from hostcc.daemon.changes.elsewhere import Outcome
from hostcc.daemon.changes.journal import Journal, recorded
from hostcc.daemon.changes.steering_undo import network_namespace
from hostcc.model import Change
from hostcc.paths import egress_kernel, egress_queues, hooks
from hostcc.paths.steer_kernel import PROGRAMS
from hostcc.system.cgroups import find_mount


def reconcile(journal: Journal, base: Path | None) -> tuple[list[Change], Outcome]:
    """Add to the journal what is left here, and undo what is in other namespaces.

    Returns the changes that are new in the journal, and what became of those in other namespaces.
    `base`: the cgroup directory of the agent whose journal it is; None: it has none.
    """
    new = journal.adopt(recorded(AttributeCopy(base))) if base is not None else []
    outcome = elsewhere.undo_reachable(journal)
    return new + _discover(journal), outcome


def _discover(journal: Journal) -> list[Change]:
    """Add what only its handle or name tells of."""
    new: list[Change] = []
    if made := [one for one in by_name() if one.id not in journal.active]:
        taken = set(_claimed(journal.path.parent))
        new += journal.adopt(one for one in made if one.id not in taken)
    return new


def base_of(run_dir: Path) -> Path | None:
    """Find the cgroup directory of the agent with this run directory; None: there is none."""
    mount, folder = find_mount(), str(run_dir.resolve())
    found = everywhere(mount) if mount is not None else ()
    return next((one.base for one in found if one.owner[0] == folder), None)


def by_name() -> list[Change]:
    """List queues and programs of any agent in this network namespace."""
    netns, devices = network_namespace(), socket.if_nameindex()
    steered = [device for ifindex, device in devices if _has_hooks(ifindex)]
    queues = [egress_queues.found(device) for device in egress_kernel.ours()]
    return [*queues, *(path_kinds.hooks(device, netns) for device in steered)]


def _has_hooks(ifindex: int) -> bool:
    try:
        return any(hooks.attached(ifindex, hook, [name]) for hook, name in PROGRAMS.items())
    except (BpfError, OSError):
        return False


def _claimed(run_dir: Path) -> Iterator[str]:
    """Ids of changes that other agents have in this network namespace."""
    mount, here = find_mount(), (str(run_dir.resolve()), network_namespace())
    for one in everywhere(mount) if mount is not None else ():
        folder, netns = one.owner
        if netns == here[1] and folder != here[0]:
            yield from (change.id for change in recorded(one))
