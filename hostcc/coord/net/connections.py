"""The TCP connections below ZeroMQ: who is at the other end, how much came, and the end of it.

ZeroMQ neither counts what an unfinished message holds nor drops one peer of many; the kernel
does both.  A descriptor is ZeroMQ's and may be closed and given out again at any time, so it
is only looked at together with the address that it had.
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
    """One connection, from its accepting or dialling to its end."""

    fd: int
    remote: tuple[str, int]
    """Address and port of the other end."""
    flood: TokenBucket
    """Bytes that may arrive."""
    curve: str = ""
    """The key that its latest message came with; empty: none came."""
    peer: str = ""
    received: int = 0
    """Bytes, as counted by the kernel at the last look."""
    rtt_s: float | None = field(default=None)
    """Smoothed round trip, as the kernel has it; None: not yet known."""

    def look(self, now: float) -> bool:
        """Ask the kernel; False when more bytes have come than may."""
        found = _tcp_info(self.fd)
        if found is None or found[1] < self.received:  # closed, or somebody else's by now
            return True
        rtt, received = found
        fits = self.flood.take(received - self.received, now)
        self.received = received
        self.rtt_s = rtt * 1e-6 if rtt else None
        return fits

    def cut(self) -> None:
        """End it, if it is still there; ZeroMQ sees that the other end is gone."""
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
    """Address and port of the other end of a TCP socket; None when there is none."""
    try:
        borrowed = socket.socket(fileno=fd)
    except OSError:
        return None
    try:
        return _remote(borrowed)
    finally:
        borrowed.detach()


class Connections:
    """What a listening socket has accepted, by descriptor."""

    def __init__(self, flood_bytes_per_s: float, flood_burst: float) -> None:
        self._rate, self._burst = flood_bytes_per_s, flood_burst
        self._by_fd: dict[int, Connection] = {}
        self._strangers: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._by_fd)

    def __iter__(self) -> Iterator[Connection]:
        return iter(list(self._by_fd.values()))

    def get(self, fd: int) -> Connection | None:
        """The connection with that descriptor."""
        return self._by_fd.get(fd)

    def opened(self, fd: int) -> Connection | None:
        """A connection was accepted; None when it has ended already."""
        self.closed(fd)
        remote = remote_of(fd)
        if remote is None:
            return None
        found = Connection(fd, remote, TokenBucket(self._rate, self._burst))
        self._by_fd[fd] = found
        self._strangers[remote[0]] += 1
        return found

    def proven(self, connection: Connection, curve: str, peer: str) -> None:
        """An authenticated message came over it."""
        if not connection.peer:
            self._no_stranger(connection)
        connection.curve, connection.peer = curve, peer

    def closed(self, fd: int) -> Connection | None:
        """It has ended; the connection that it was, if it is known."""
        found = self._by_fd.pop(fd, None)
        if found is not None and not found.peer:
            self._no_stranger(found)
        return found

    def strangers_at(self, address: str) -> int:
        """Connections from there over which no message has come yet."""
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
    """(Round trip in us, bytes received) of a TCP socket."""
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
