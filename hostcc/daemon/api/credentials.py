"""Who is at the other end of a UNIX socket, by the kernel's word."""

from __future__ import annotations

import ctypes
import grp
import os
import select
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from hostcc.errors import DeniedError, HostccError
from hostcc.log import get_logger
from hostcc.system import procfs
from hostcc.system.process_scan import read

log = get_logger("control")

_SO_PEERGROUPS = 59  # include/uapi/asm-generic/socket.h
_SO_PEERPIDFD = 77  # the same, Linux 6.5
_NGROUPS_MAX = 65536  # include/uapi/linux/limits.h
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Peer:
    """The process that connected, as it was then."""

    pid: int
    uid: int
    groups: frozenset[int]
    started: int = 0
    """When it started (/proc/PID/stat); 0: that was not to be seen."""
    open_pidfd: Callable[[], int] | None = field(default=None, compare=False)
    """Opens a descriptor of the very process that connected; None: the kernel has none."""

    def may_change(self) -> bool:
        """Changing needs root."""
        return self.uid == 0

    def may_read(self, group: int | None) -> bool:
        """Reading needs root or the group."""
        return self.uid == 0 or (group is not None and group in self.groups)


def peer_of(sock: socket.socket) -> Peer:
    """The peer of a connected UNIX socket.  Raises OSError."""
    raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    pid, uid, gid = struct.unpack("3i", raw)

    def pidfd() -> int:
        return sock.getsockopt(socket.SOL_SOCKET, _SO_PEERPIDFD)

    return Peer(pid, uid, frozenset({gid, *_groups_of(sock)}), _start_of(pid), pidfd)


class PeerProcess:
    """The process that connected, told apart from a later one with its number, while it is used.

    Raises HostccError when it has ended, DeniedError when it has become another user's.
    """

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._fd = -1

    def __enter__(self) -> PeerProcess:
        if self._peer.open_pidfd is not None:
            with suppress(OSError):  # an older kernel, or it is gone: its start tells
                self._fd = self._peer.open_pidfd()
        try:
            self.check()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def check(self) -> None:
        """Raise unless the number is still its own, and it its user's."""
        pid, uid = self._peer.pid, self._peer.uid
        if pid <= 0:
            raise HostccError("the process that connected cannot be seen from the agent")
        if self._ended():
            raise HostccError(f"process {pid}, which connected, has ended")
        if uid != 0 and procfs.real_uid(read(f"/proc/{pid}/status", 8192)) != uid:
            raise DeniedError(f"process {pid} is no longer one of uid {uid}")

    def _ended(self) -> bool:
        if self._fd >= 0:
            poll = select.poll()
            poll.register(self._fd, select.POLLIN)
            return bool(poll.poll(0))
        return not self._peer.started or _start_of(self._peer.pid) != self._peer.started


def _start_of(pid: int) -> int:
    found = procfs.stat(read(f"/proc/{pid}/stat", 4096)) if pid > 0 else None
    return found.started if found is not None else 0


def _groups_of(sock: socket.socket) -> list[int]:
    """The peer's supplementary groups.  Python's getsockopt takes no room for more than 256."""
    room = (ctypes.c_uint32 * _NGROUPS_MAX)()
    size = ctypes.c_uint32(ctypes.sizeof(room))
    asked = socket.SOL_SOCKET, _SO_PEERGROUPS
    if _libc.getsockopt(sock.fileno(), *asked, room, ctypes.byref(size)):
        reason = os.strerror(ctypes.get_errno())
        log.warning("groups of a client are unknown, its primary one has to do", reason=reason)
        return []
    return room[: size.value // ctypes.sizeof(ctypes.c_uint32)]


def group_id(name: str) -> int | None:
    """The group's number; None when there is no such group, or no name."""
    try:
        return grp.getgrnam(name).gr_gid if name else None
    except KeyError:
        return None
