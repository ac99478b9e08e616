"""Who is at the other end of a UNIX socket, by the kernel's word."""

from __future__ import annotations

import ctypes
import grp
import os
import socket
import struct
from dataclasses import dataclass

from hostcc.log import get_logger

log = get_logger("control")

_SO_PEERGROUPS = 59  # include/uapi/asm-generic/socket.h
_NGROUPS_MAX = 65536  # include/uapi/linux/limits.h
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Peer:
    """The process that connected, as it was then."""

    pid: int
    uid: int
    groups: frozenset[int]

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
    return Peer(pid, uid, frozenset({gid, *_groups_of(sock)}))


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
