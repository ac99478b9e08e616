"""Whether this mount namespace shows the directory that a change was made in.

It may show another directory under that name, or none: a file that is missing there is not gone.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from pathlib import Path

from hostcc.daemon.changes.netns_search import FIRST_PID_NAMESPACE
from hostcc.daemon.changes.places import MNTNS, folder_of
from hostcc.model import Change
from hostcc.system.cgroups import find_mount, how_to_mount
from hostcc.system.namespaces import all_pids, pid_namespace

_KERNFS = 0xFE
"""FILEID_KERNFS: a handle that is a cgroup's id."""


class _Handle(ctypes.Structure):
    """struct file_handle with room for that."""

    _fields_ = (
        ("handle_bytes", ctypes.c_uint),
        ("handle_type", ctypes.c_int),
        ("number", ctypes.c_ubyte * 8),
    )


def reason(change: Change) -> str:
    """Say why the target of a change cannot be seen from here; empty when it can."""
    place = change.place
    if place is None or place.folder is None or folder_of(change.target) == place.folder:
        return ""
    mount = find_mount()
    if mount is not None and mount.stat().st_dev == place.folder[0]:
        if not _exists(mount, place.folder[1]):
            return ""
        return "its cgroup has another name here: run hostcc rollback where the agent ran"
    if MNTNS.stat().st_ino == place.mnt or _ended(place.mnt):
        return ""
    hint = f": {how_to_mount()}" if mount is None else ""
    return f"its directory is not seen in this mount namespace{hint}"


def _ended(number: int) -> bool:
    """Whether no process of this host is in that mount namespace, so that its mounts are gone."""
    for pid in all_pids():
        try:
            if str(Path(f"/proc/{pid}/ns/mnt").readlink()) == f"mnt:[{number}]":
                return False
        except PermissionError:
            if pid != 1:  # of its own right in the first one
                return False
        except OSError:
            continue
    return pid_namespace() == FIRST_PID_NAMESPACE


def _exists(mount: Path, number: int) -> bool:
    """Whether there is a cgroup of that id, wherever it is."""
    handle = _Handle(8, _KERNFS, (ctypes.c_ubyte * 8)(*number.to_bytes(8, sys.byteorder)))
    at = os.open(mount, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        fd = libc.open_by_handle_at(at, ctypes.byref(handle), flags)
        if fd >= 0:
            os.close(fd)
        return fd >= 0 or ctypes.get_errno() != errno.ESTALE
    finally:
        os.close(at)
