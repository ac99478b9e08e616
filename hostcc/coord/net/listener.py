"""A listening socket that can refuse new connections while the open ones continue.

ZeroMQ accepts without limit, spins when descriptors run out, and closes a listener's connections
with it. So this module owns the socket and gives ZeroMQ a duplicate. Under overload it attaches a
socket filter that rejects everything, and the kernel drops new handshakes (SO_ATTACH_FILTER,
socket(7)). Open connections do not pass that filter.
"""

from __future__ import annotations

import ctypes
import os
import socket
import struct

from hostcc.coord.net.address import Address
from hostcc.errors import HostccError

_SO_ATTACH_FILTER, _SO_DETACH_FILTER = 26, 27  # include/uapi/asm-generic/socket.h
_DROP_ALL = struct.pack("=HBBI", 0x06, 0, 0, 0)  # BPF_RET | BPF_K, 0 bytes
BACKLOG = 128


class TcpListener:
    """A listening TCP socket; while `closed`, new connections are dropped."""

    def __init__(self, address: Address) -> None:
        """Raises HostccError when the address is not available."""
        family = socket.AF_INET6 if address.is_v6 else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if address.is_v6:
                both = 0 if address.is_any else 1  # [::] is everything, IPv4 included
                self._socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, both)
            self._socket.bind((address.host, address.port))
            self._socket.listen(BACKLOG)
        except OSError as error:
            self._socket.close()
            raise HostccError(f"gossip: listen on {address}: {error.strerror}") from None
        self.address = Address(address.host, self._socket.getsockname()[1])
        """Address with the port that the kernel assigned."""
        self.closed = False

    def duplicate(self) -> int:
        """Return a duplicate descriptor, for ZeroMQ to accept on and to close."""
        fd = os.dup(self._socket.fileno())
        os.set_blocking(fd, False)
        return fd

    def shut(self) -> None:
        """Drop new connections from now on."""
        if not self.closed:
            program = ctypes.create_string_buffer(_DROP_ALL, len(_DROP_ALL))
            what = struct.pack("@HP", 1, ctypes.addressof(program))  # struct sock_fprog
            self._socket.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, what)
            self.closed = True

    def open(self) -> None:
        """Accept new connections again."""
        if self.closed:
            self._socket.setsockopt(socket.SOL_SOCKET, _SO_DETACH_FILTER, 0)
            self.closed = False

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()
