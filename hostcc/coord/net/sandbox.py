"""Drops the privileges of the transport process, which needs only its port and the keys."""

from __future__ import annotations

import ctypes
import os
import signal
import struct
from pathlib import Path

from hostcc.errors import HostccError

KEPT = 1 << 10
"""CAP_NET_BIND_SERVICE: it may have to listen on a port below 1024."""
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS = 1, 4, 38
_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL = 47, 4  # include/uapi/linux/prctl.h
_CAPABILITY_VERSION_3 = 0x20080522  # include/uapi/linux/capability.h


def confine(parent: int) -> None:
    """Drop all capabilities but KEPT, disable core dumps (they would hold the keys), and die with
    `parent`.

    Raises HostccError when the kernel refuses, or when `parent` is gone.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    _prctl(libc, _PR_SET_DUMPABLE, 0)
    _prctl(libc, _PR_SET_NO_NEW_PRIVS, 1)
    _prctl(libc, _PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL)
    kept = permitted() & KEPT
    header = struct.pack("=Ii", _CAPABILITY_VERSION_3, 0)
    if libc.capset(header, struct.pack("=6I", kept, kept, 0, 0, 0, 0)) != 0:
        raise _refused("capset")
    # After capset, which resets the parent-death signal.
    _prctl(libc, _PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        raise HostccError("the agent is gone")


def permitted(pid: int | str = "self") -> int:
    """Return the permitted capabilities of a process, as a bit mask."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    lines = dict(line.partition(":")[::2] for line in status.splitlines())
    return int(lines["CapPrm"], 16)


def _prctl(libc: ctypes.CDLL, what: int, value: int) -> None:
    if libc.prctl(what, *(ctypes.c_ulong(word) for word in (value, 0, 0, 0))) != 0:
        raise _refused(f"prctl {what}")


def _refused(what: str) -> HostccError:
    return HostccError(f"{what}: {os.strerror(ctypes.get_errno())}")
