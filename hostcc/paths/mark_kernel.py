"""Marks sockets in the kernel: programs of mark.bpf.c on jobs' cgroups, and walks over sockets.

Links are held by descriptors of this process: after its death nothing new is marked.  A marked
socket keeps its mark until `clear`, or until the holder of `remains` removes it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hostcc.bpf.loader.links import BpfLink
from hostcc.bpf.loader.maps import BpfMap
from hostcc.bpf.loader.netns import in_netns
from hostcc.bpf.loader.object import BpfObject
from hostcc.bpf.loader.objects import object_path
from hostcc.system.closing import Closing

CGROUP_PROGRAMS = (
    "mark_sockops", "mark_connect4", "mark_connect6", "mark_sendmsg4", "mark_sendmsg6",
)  # fmt: skip

MAX_CLAMP = (1 << 31) - 1
"""Packets: bpf_setsockopt takes an int."""


@dataclass(frozen=True)
class JobMark:
    """What sockets of a job get."""

    tos: int | None = None
    """DSCP << 2; None: unchanged."""
    force: bool = False
    """Mark also where the application has set a mark."""
    pace_bps: float | None = None
    """Pace of each connection, bytes per second."""
    clamp_packets: int | None = None
    """Upper bound of each connection's window."""
    stray: int = 0
    """DSCP << 2 that a dead agent has left on sockets, which count as ours; 0: none."""
    stray_pace_bps: float = 0.0
    """The same of a pace."""
    stray_clamp: int = 0
    """The same of an upper bound of the window."""


@dataclass(frozen=True)
class WalkResult:
    """Counts of a walk over existing sockets."""

    seen: int
    set: int
    foreign: int
    """Sockets left alone: their application has marked them."""
    failed: int


class MarkKernel(Closing):
    """Loads mark.bpf.c; raises BpfError.  Slots are the caller's job numbers, from 1.

    `flows`: the flow tracker's socket storage, so that a job's group comes before a port rule.
    """

    def __init__(self, flows: BpfMap | None = None) -> None:
        self._links: dict[tuple[int, Path], list[BpfLink]] = {}
        with contextlib.ExitStack() as stack:
            self._object = stack.enter_context(BpfObject.open(object_path("mark")))
            if flows is not None:
                self._object.reuse_map("flows", flows)
            self._object.load()
            self._confs = self._object.map("mark_confs")
            self._walks = self._object.map("mark_walk")
            self._cgroups = self._object.map("mark_cgroups")
            self._ports = self._object.map("mark_ports")
            self._slots = self._object.map("mark_slot")
            self._iterator = self._object.attach_iter("mark_tcp")
            stack.pop_all()

    def set_job(self, slot: int, mark: JobMark | None) -> None:
        """Set what new sockets of a job get; `walk` applies it to existing ones."""
        conf = np.zeros((), self._confs.value_dtype)
        if mark is not None:
            flags = {
                "MARK_ON": mark.tos is not None,
                "MARK_FORCE": mark.force,
                "MARK_PACE": mark.pace_bps is not None,
                "MARK_CLAMP": mark.clamp_packets is not None,
            }
            conf["flags"] = sum(self._object.enums[name] for name, on in flags.items() if on)
            conf["tos"] = (mark.tos or 0) & 0xFC
            conf["pace"] = int(mark.pace_bps or 0)
            conf["clamp"] = mark.clamp_packets or 0
            conf["stray"] = mark.stray & 0xFC
            conf["stray_pace"] = int(mark.stray_pace_bps)
            conf["stray_clamp"] = mark.stray_clamp
        self._confs.update(slot, conf[()])

    def attach(self, slot: int, cgroup: Path) -> None:
        """Mark new sockets in and below one of a job's cgroup v2 directories."""
        self.detach(slot, cgroup)
        fd = os.open(cgroup, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        links: list[BpfLink] = []
        try:
            links.extend(self._object.attach_cgroup(name, fd) for name in CGROUP_PROGRAMS)
            self._slots.update(os.fstat(fd).st_ino, slot)
        except BaseException:
            for link in links:
                link.close()
            raise
        finally:
            os.close(fd)
        self._links[slot, cgroup] = links

    def detach(self, slot: int, cgroup: Path) -> None:
        """Stop marking new sockets of one of a job's directories."""
        for link in self._links.pop((slot, cgroup), []):
            link.close()

    def detached(self, slot: int, cgroup: Path) -> bool:
        """Check whether somebody detached a program from a directory that is still there."""
        return any(link.detached_from(cgroup) for link in self._links[slot, cgroup])

    @property
    def remains(self) -> tuple[int, int, int, int]:
        """Return what another process needs to remove all marks.

        Descriptors of the table of jobs and of the walk over sockets, the table's length, the bytes
        of an entry.
        """
        size = self._confs.value_dtype.itemsize
        return self._confs.fd, self._iterator.link.fd, self._confs.max_entries, size

    def attach_rules(self, root: Path) -> None:
        """Mark new TCP sockets below `root` by their ports; see set_ports."""
        fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            links = self._links.setdefault((0, root), [])
            links.append(self._object.attach_cgroup("mark_rules", fd))
        finally:
            os.close(fd)

    def set_ports(self, rules: Mapping[tuple[int, bool], int]) -> None:
        """Replace the port rules: (port, is_remote) -> slot."""
        self._ports.clear()
        for (port, remote), slot in rules.items():
            self._ports.update((port, int(remote)), slot)

    def set_cgroup_ids(self, ids: Mapping[int, int]) -> None:
        """Replace the cgroup ids (inode numbers) of existing sockets: id -> slot."""
        for key in set(self._cgroups.keys().tolist()) - set(ids):
            self._cgroups.delete(key)
        for key, slot in ids.items():
            self._cgroups.update(key, slot)

    def walk(self, netns: Sequence[Path | None]) -> WalkResult:
        """Apply jobs' marks, paces and bounds to existing TCP sockets of namespaces."""
        self._walks.update(0, (0, 0, 0, 0))
        for where in netns:
            in_netns(where, self._iterator.read)
        done: Any = self._walks.lookup(0)
        return WalkResult(*(int(done[name]) for name in ("seen", "set", "foreign", "failed")))

    def clear(self, netns: Sequence[Path | None]) -> WalkResult:
        """Give every TCP socket back the mark that it had before."""
        for slot in range(1, self._confs.max_entries):
            value = self._confs.lookup(slot)
            if int(value["flags"]):
                self.set_job(slot, None)
        return self.walk(netns)

    def close(self) -> None:
        """Detach and unload."""
        for slot, cgroup in list(self._links):
            self.detach(slot, cgroup)
        self._iterator.close()
        self._object.close()
