"""Why a host does not answer: a TCP connection that is only begun, because ZeroMQ does not say."""

from __future__ import annotations

import errno
import os
import select
import socket

from hostcc.coord.net.address import Address

PATIENCE_S = 3.0


class ConnectAttempt:
    """One attempt; nothing is sent over the connection, should it come about."""

    def __init__(self, address: Address, now: float) -> None:
        self._until = now + PATIENCE_S
        family = socket.AF_INET6 if address.is_v6 else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        self._socket.setblocking(False)
        self._code = self._socket.connect_ex((address.host, address.port))

    def outcome(self, now: float) -> int | None:
        """An errno, 0 where it was accepted; None: not known yet."""
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
        """Wait no more."""
        self._socket.close()


def words(code: int) -> str:
    """An errno for people: "connection refused"."""
    return os.strerror(code).lower()
