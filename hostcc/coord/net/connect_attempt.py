"""Finds out why a host cannot be reached, by a TCP connect: ZeroMQ does not report errors."""

from __future__ import annotations

import errno
import os
import select
import socket

from hostcc.coord.net.address import Address

CONNECT_TIMEOUT_S = 3.0


class ConnectAttempt:
    """One non-blocking connect; nothing is sent if it succeeds."""

    def __init__(self, address: Address, now: float) -> None:
        self._until = now + CONNECT_TIMEOUT_S
        family = socket.AF_INET6 if address.is_v6 else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        self._socket.setblocking(False)
        self._code = self._socket.connect_ex((address.host, address.port))

    def outcome(self, now: float) -> int | None:
        """Return an errno, 0 for success; None: not known yet."""
        if self._code == errno.EINPROGRESS:
            poll = select.poll()
            poll.register(self._socket, select.POLLOUT)
            if poll.poll(0):
                self._code = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            elif now >= self._until:
                self._code = errno.ETIMEDOUT
            else:
                return None
        self.close()
        return self._code

    def close(self) -> None:
        """Abandon the attempt."""
        self._socket.close()


def errno_text(code: int) -> str:
    """Return an errno in words, such as "connection refused"."""
    return os.strerror(code).lower()
