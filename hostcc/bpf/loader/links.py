"""Attachments that the kernel undoes when the process that holds them dies."""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hostcc.bpf.loader.libbpf import call, lib
from hostcc.system.closing import Closing

ATTACH_STRUCT_OPS = 44  # enum bpf_attach_type: BPF_STRUCT_OPS, Linux 6.4 and newer
LINK_CGROUP, LINK_STRUCT_OPS = 3, 9  # enum bpf_link_type
_LINK_INFO = np.dtype(
    {
        "names": ["type", "id", "prog_id", "cgroup_id", "attach_type", "map_id"],
        "formats": ["u4", "u4", "u4", "u8", "u4", "u4"],
        "offsets": [0, 4, 8, 16, 24, 16],
        "itemsize": 96,
    }
)
# Where these are, in words of 64 bits.
_TYPE_AT, _CGROUP_AT = 0, 2


@dataclass(frozen=True, slots=True)
class LinkInfo:
    """struct bpf_link_info, as far as hostcc uses it."""

    type: int
    """enum bpf_link_type."""
    id: int
    prog_id: int
    cgroup_id: int
    """Cgroup links: inode of the cgroup, 0 once that is gone.  Others: 0."""
    attach_type: int
    """Cgroup links: enum bpf_attach_type."""
    map_id: int
    """struct_ops links: the map that is registered."""


class BpfLink(Closing):
    """One attachment.  Holds until `close`, or until the process ends in whatever way.

    It is also a context manager.  Dropping the object does not detach.
    """

    def __init__(self, fd: int, what: str, cgroup_id: int = 0) -> None:
        self.fd = fd
        self.what = what
        self._cgroup_id = cgroup_id  # what it was attached to, also once that is gone

    def info(self) -> LinkInfo:
        """Ask the kernel about the link; BpfError when it is closed."""
        raw = np.zeros((), _LINK_INFO)
        size = ctypes.c_uint32(raw.nbytes)
        call("bpf_obj_get_info_by_fd", self.fd, raw.ctypes.data, size, what=f"{self.what}: no info")
        kind = int(raw["type"])
        cgroup = kind == LINK_CGROUP
        return LinkInfo(
            kind,
            int(raw["id"]),
            int(raw["prog_id"]),
            int(raw["cgroup_id"]) if cgroup else 0,
            int(raw["attach_type"]) if cgroup else 0,
            int(raw["map_id"]) if kind == LINK_STRUCT_OPS else 0,
        )

    @property
    def alive(self) -> bool:
        """Whether it is open and the cgroup that it was attached to exists."""
        # As `info` has it, in a third of the time: an agent asks hundreds of links at once.
        raw = (ctypes.c_uint64 * (_LINK_INFO.itemsize // 8))()
        size = ctypes.c_uint32(_LINK_INFO.itemsize)
        if lib().bpf_obj_get_info_by_fd(self.fd, raw, size) < 0:
            return False
        kind, cgroup_id = raw[_TYPE_AT] & 0xFFFFFFFF, raw[_CGROUP_AT]
        return bool(kind != LINK_CGROUP or cgroup_id)

    def detached_from(self, cgroup: Path) -> bool:
        """Whether somebody detached it while its cgroup, at this path, goes on.

        A cgroup that is removed takes the link with it: its job has ended, nobody broke anything.
        """
        if self.alive:
            return False
        try:
            return cgroup.stat().st_ino == self._cgroup_id
        except OSError:
            return False

    def close(self) -> None:
        """Detach.  May be called again."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)


def create(fd: int, target_fd: int, attach_type: int, what: str) -> BpfLink:
    """Create a link; `fd`: of a program, or of a struct_ops map.  Raises BpfError.

    `target_fd`: of a cgroup's directory, or 0.
    """
    link = call("bpf_link_create", fd, target_fd, attach_type, None, what=f"cannot attach {what}")
    return BpfLink(link, what, os.fstat(target_fd).st_ino if target_fd else 0)
