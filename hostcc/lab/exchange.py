"""Move a given number of bytes over several TCP connections at once, with few system calls.

Receivers drop the payload in the kernel (MSG_TRUNC) and are woken only when a large piece, or
the last byte, is there (SO_RCVLOWAT); senders hand over large pieces.  At 200 Mbit/s this
costs a few per cent of one core, so that dozens of workers share a small machine.
"""

from __future__ import annotations

import select
import socket
from collections.abc import Iterable, Sequence

Amounts = Sequence[tuple[socket.socket, int]]
"""Connections, and the bytes of each."""
PIECE_BYTES = 1 << 18
"""Largest piece per system call."""


class PeerGoneError(Exception):
    """The other side closed or reset a connection."""


class Exchange:
    """A set of connections on one edge-triggered epoll."""

    def __init__(self, connections: Iterable[socket.socket]) -> None:
        self._epoll = select.epoll()
        self._sockets: dict[int, socket.socket] = {}
        self._low_water: dict[int, int] = {}
        self._payload = memoryview(bytes(PIECE_BYTES))
        self._scratch = bytearray(PIECE_BYTES)
        for connection in connections:
            connection.setblocking(False)
            self._sockets[connection.fileno()] = connection
            self._epoll.register(
                connection, select.EPOLLIN | select.EPOLLOUT | select.EPOLLET | select.EPOLLRDHUP
            )

    def transfer(
        self,
        outgoing: Amounts,
        incoming: Amounts,
    ) -> None:
        """Send and receive so many bytes on each connection; returns when all is done.

        Sending is done when the kernel has taken the bytes.  Raises PeerGoneError.
        """
        to_send = {link.fileno(): count for link, count in outgoing if count}
        to_receive = {link.fileno(): count for link, count in incoming if count}
        for fd in list(to_receive):
            self._receive(fd, to_receive)
        for fd in list(to_send):
            self._send(fd, to_send)
        while to_send or to_receive:
            for fd, events in self._epoll.poll():
                if fd in to_receive:
                    self._receive(fd, to_receive)
                if fd in to_send:
                    if events & (select.EPOLLHUP | select.EPOLLERR):
                        raise PeerGoneError
                    self._send(fd, to_send)

    def close(self) -> None:
        """Close the connections."""
        self._epoll.close()
        for connection in self._sockets.values():
            connection.close()

    def _send(self, fd: int, pending: dict[int, int]) -> None:
        link, left = self._sockets[fd], pending[fd]
        try:
            while left:
                left -= link.send(self._payload[: min(left, PIECE_BYTES)])
        except BlockingIOError:
            pending[fd] = left
            return
        except OSError as error:
            raise PeerGoneError from error
        del pending[fd]

    def _receive(self, fd: int, pending: dict[int, int]) -> None:
        link, left = self._sockets[fd], pending[fd]
        try:
            while left:
                got = link.recv_into(self._scratch, min(left, PIECE_BYTES), socket.MSG_TRUNC)
                if not got:
                    raise PeerGoneError
                left -= got
        except BlockingIOError:
            pending[fd] = left
            self._set_low_water(fd, min(left, PIECE_BYTES // 2))
            return
        except OSError as error:
            raise PeerGoneError from error
        del pending[fd]

    def _set_low_water(self, fd: int, count: int) -> None:
        if self._low_water.get(fd) != count:
            self._low_water[fd] = count
            self._sockets[fd].setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, count)


def shares(total: int, parts: int) -> list[int]:
    """Split a number of bytes as evenly as it goes."""
    small, more = divmod(total, parts)
    return [small + (index < more) for index in range(parts)]
