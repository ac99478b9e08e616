"""Which TCP sockets this network namespace has, asked of the kernel (sock_diag(7))."""

from __future__ import annotations

import errno
import ipaddress
import socket
import struct
from collections.abc import Iterator

from hostcc.errors import HostccError

_SOCK_DIAG_BY_FAMILY, _REQUEST, _DUMP = 20, 0x1, 0x300
_NETLINK_SOCK_DIAG = 4
_NO_COOKIE = 0xFFFFFFFF
_ALL_STATES = 0xFFFFFFFF
_ESTABLISHED = 1
_LISTEN = 10


def exists(local: str, local_port: int, remote: str, remote_port: int) -> bool:
    """Whether a connection has exactly these ends; listeners do not count.

    Raises HostccError when the kernel cannot be asked.
    """
    ours, theirs = ipaddress.ip_address(local), ipaddress.ip_address(remote)
    family = socket.AF_INET6 if ours.version == 6 else socket.AF_INET
    request = _request(
        family, 0, local_port, remote_port,
        ours.packed.ljust(16, b"\0"), theirs.packed.ljust(16, b"\0"),
    )  # fmt: skip
    for kind, body in _ask(request, _REQUEST):
        if kind == _SOCK_DIAG_BY_FAMILY:
            return body[1] != _LISTEN
    return False


def local_ports(first: int, last: int) -> set[int]:
    """Local ports of a range that any TCP socket has.  Raises HostccError."""
    taken = set()
    for family in (socket.AF_INET, socket.AF_INET6):
        request = _request(family, _ALL_STATES, 0, 0, bytes(16), bytes(16))
        for kind, body in _ask(request, _REQUEST | _DUMP):
            if kind == _SOCK_DIAG_BY_FAMILY:
                port = struct.unpack_from("!H", body, 4)[0]
                if first <= port <= last:
                    taken.add(port)
    return taken


def _request(
    family: int, states: int, sport: int, dport: int, src: bytes, dst: bytes
) -> bytes:  # fmt: skip
    """struct inet_diag_req_v2"""
    head = struct.pack("BBBBI", family, socket.IPPROTO_TCP, 0, 0, states)
    ports = struct.pack("!HH", sport, dport)
    return head + ports + src + dst + struct.pack("III", 0, _NO_COOKIE, _NO_COOKIE)


def _ask(request: bytes, flags: int) -> Iterator[tuple[int, bytes]]:
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG) as sock:
            sock.settimeout(5.0)
            size = 16 + len(request)
            sock.send(struct.pack("IHHII", size, _SOCK_DIAG_BY_FAMILY, flags, 1, 0) + request)
            while True:
                data, at = sock.recv(1 << 18), 0
                while at + 16 <= len(data):
                    size, kind = struct.unpack_from("IH", data, at)
                    body = data[at + 16 : at + size]
                    if kind == 3:  # NLMSG_DONE
                        return
                    if kind == 2:  # NLMSG_ERROR
                        number = -struct.unpack_from("i", body)[0]
                        if number in (0, errno.ENOENT):
                            return
                        raise HostccError(f"sock_diag: {errno.errorcode.get(number, number)}")
                    yield kind, body
                    if not flags & _DUMP:
                        return
                    at += max(16, (size + 3) & ~3)
    except OSError as error:
        raise HostccError(f"sock_diag: {error.strerror}") from None
