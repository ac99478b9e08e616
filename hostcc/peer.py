"""Who is at the other end of a UNIX socket, by the kernel's word."""

from __future__ import annotations

import grp
import socket
import struct
from dataclasses import dataclass

_SO_PEERGROUPS = 59  # include/uapi/asm-generic/socket.h, Linux 4.13


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
    try:
        more = sock.getsockopt(socket.SOL_SOCKET, _SO_PEERGROUPS, 65536)
    except OSError:  # an older kernel: the primary group has to do
        more = b""
    return Peer(pid, uid, frozenset({gid, *struct.unpack(f"{len(more) // 4}I", more)}))


def group_id(name: str) -> int | None:
    """The group's number; None when there is no such group, or no name."""
    try:
        return grp.getgrnam(name).gr_gid if name else None
    except KeyError:
        return None
