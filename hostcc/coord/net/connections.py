"""TCP connections below ZeroMQ: the remote address, bytes received, and how to cut one.

ZeroMQ neither counts the bytes of an unfinished message nor drops one peer of many; the kernel can
do both. ZeroMQ owns the descriptor and may close it at any time, after which it may be reused. So
it is only used together with the remote address that it had.
"""

from __future__ import annotations

import os
import socket
import struct
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from hostcc.coord.net.rate import TokenBucket

_TCP_INFO_RTT = 68  # struct tcp_info, include/uapi/linux/tcp.h
_TCP_INFO_RECEIVED = 128


@dataclass
class Connection:
    """One connection, from accept or connect to its end."""

    fd: int
    remote: tuple[str, int]
    """Address and port of the other end."""
    flood: TokenBucket
    """Bucket of the bytes that may arrive."""
    curve: str = ""
    """CURVE key of its latest message; empty: there was none."""
    peer: str = ""
    received: int = 0
    """Bytes received, as the kernel counted at the last look."""
    rtt_s: float | None = field(default=None)
    """The kernel's smoothed round-trip time; None: not known yet."""

    def within_limit(self, now: float) -> bool:
        """Update from the kernel; return False when more bytes arrived than allowed."""
        found = _tcp_info(self.fd)
        if found is None or found[1] < self.received:  # closed, or somebody else's by now
            return True
        rtt, received = found
        fits = self.flood.take(received - self.received, now)
        self.received = received
        self.rtt_s = rtt * 1e-6 if rtt else None
        return fits

    def cut(self) -> None:
        """Shut the connection down if it still exists; ZeroMQ then sees that the peer is gone."""
        try:
            own = socket.socket(fileno=os.dup(self.fd))
        except OSError:
            return
        with own:
            if _remote(own) == self.remote:
                try:
                    own.shutdown(socket.SHUT_RDWR)
                except OSError:  # it ended by itself
                    return


def remote_of(fd: int) -> tuple[str, int] | None:
    """Return address and port of the other end of a TCP socket; None: not connected."""
    try:
        borrowed = socket.socket(fileno=fd)
    except OSError:
        return None
    try:
        return _remote(borrowed)
    finally:
        borrowed.detach()


class Connections:
    """Connections that a listening socket has accepted, by descriptor."""

    def __init__(self, flood_bytes_per_s: float, flood_burst: float) -> None:
        self._rate, self._burst = flood_bytes_per_s, flood_burst
        self._by_fd: dict[int, Connection] = {}
        self._strangers: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._by_fd)

    def __iter__(self) -> Iterator[Connection]:
        return iter(list(self._by_fd.values()))

    def get(self, fd: int) -> Connection | None:
        """Return the connection on a descriptor."""
        return self._by_fd.get(fd)

    def opened(self, fd: int) -> Connection | None:
        """Register an accepted connection; return None when it has ended already."""
        self.closed(fd)
        remote = remote_of(fd)
        if remote is None:
            return None
        found = Connection(fd, remote, TokenBucket(self._rate, self._burst))
        self._by_fd[fd] = found
        self._strangers[remote[0]] += 1
        return found

    def set_peer(self, connection: Connection, curve: str, peer: str) -> None:
        """Record the peer that an authenticated message came from."""
        if not connection.peer:
            self._no_stranger(connection)
        connection.curve, connection.peer = curve, peer

    def closed(self, fd: int) -> Connection | None:
        """Forget an ended connection; return it if it was known."""
        found = self._by_fd.pop(fd, None)
        if found is not None and not found.peer:
            self._no_stranger(found)
        return found

    def strangers_at(self, address: str) -> int:
        """Return the number of connections from an address that carried no message yet."""
        return self._strangers[address]

    def _no_stranger(self, connection: Connection) -> None:
        address = connection.remote[0]
        self._strangers[address] -= 1
        if self._strangers[address] <= 0:
            del self._strangers[address]


def _remote(sock: socket.socket) -> tuple[str, int] | None:
    try:
        name = sock.getpeername()
    except OSError:
        return None
    return (str(name[0]).removeprefix("::ffff:"), int(name[1])) if len(name) >= 2 else None


def _tcp_info(fd: int) -> tuple[int, int] | None:
    """Return (smoothed RTT in us, bytes received) of a TCP socket; None when it has none."""
    try:
        borrowed = socket.socket(fileno=fd)
    except OSError:
        return None
    try:
        raw = borrowed.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 192)
    except OSError:
        return None
    finally:
        borrowed.detach()
    if len(raw) < _TCP_INFO_RECEIVED + 8:
        return None
    (rtt,) = struct.unpack_from("=I", raw, _TCP_INFO_RTT)
    (received,) = struct.unpack_from("=Q", raw, _TCP_INFO_RECEIVED)
    return rtt, received
