"""TCP sockets of this network namespace, and their DSCP marks, by sock_diag(7)."""

from __future__ import annotations

import errno
import ipaddress
import socket
import struct

from hostcc.errors import HostccError
from hostcc.system import netlink

_SOCK_DIAG_BY_FAMILY = 20
_NO_COOKIE = 0xFFFFFFFF
_ALL_STATES = 0xFFFFFFFF
_LISTEN = 10
_TOS, _TCLASS = 5, 6
_MARKS = 1 << (_TOS - 1) | 1 << (_TCLASS - 1)
# struct inet_diag_msg; attributes follow.
_BODY_BYTES = 72

Ends = tuple[str, int, str, int]
"""Local address and port, remote address and port; IPv4 in IPv6 as IPv4."""


def exists(local: str, local_port: int, remote: str, remote_port: int) -> bool:
    """Check for a connection with exactly these ends; listeners do not count.

    Raises HostccError when the kernel cannot be asked.
    """
    ours, theirs = ipaddress.ip_address(local), ipaddress.ip_address(remote)
    family = socket.AF_INET6 if ours.version == 6 else socket.AF_INET
    request = _request(
        family, 0, local_port, remote_port,
        ours.packed.ljust(16, b"\0"), theirs.packed.ljust(16, b"\0"),
    )  # fmt: skip
    try:
        state = netlink.get(_SOCK_DIAG_BY_FAMILY, request, netlink.SOCK_DIAG)[1]
    except OSError as error:
        if error.errno == errno.ENOENT:
            return False
        raise _failure(error) from None
    return state != _LISTEN


def local_ports(first: int, last: int) -> set[int]:
    """List the ports of a range that TCP sockets are bound to.  Raises HostccError."""
    taken = set()
    for family in (socket.AF_INET, socket.AF_INET6):
        request = _request(family, _ALL_STATES, 0, 0, bytes(16), bytes(16))
        for body in _listed(request):
            port = struct.unpack_from("!H", body, 4)[0]
            if first <= port <= last:
                taken.add(port)
    return taken


def marks() -> dict[Ends, int]:
    """Read the DSCP that each TCP connection sends with.  Raises HostccError."""
    found = {}
    states = _ALL_STATES & ~(1 << _LISTEN)
    for family in (socket.AF_INET, socket.AF_INET6):
        request = _request(family, states, 0, 0, bytes(16), bytes(16), _MARKS)
        for body in _listed(request):
            local, remote = _address(family, body[8:24]), _address(family, body[24:40])
            carried = netlink.attributes(body[_BODY_BYTES:])
            # Over IPv6 the traffic class counts; IPv4 in IPv6 has none.
            tos = carried.get(_TCLASS if ":" in local else _TOS, b"")
            if tos:
                sport, dport = struct.unpack_from("!HH", body, 4)
                found[local, sport, remote, dport] = tos[0] >> 2
    return found


def _address(family: int, raw: bytes) -> str:
    if family == socket.AF_INET:
        return str(ipaddress.IPv4Address(raw[:4]))
    wide = ipaddress.IPv6Address(raw)
    return str(wide.ipv4_mapped or wide)


def _request(
    family: int, states: int, sport: int, dport: int, src: bytes, dst: bytes, more: int = 0
) -> bytes:  # fmt: skip
    # struct inet_diag_req_v2; `more`: attributes that are wanted beside the socket's ends.
    head = struct.pack("BBBBI", family, socket.IPPROTO_TCP, more, 0, states)
    ports = struct.pack("!HH", sport, dport)
    return head + ports + src + dst + struct.pack("III", 0, _NO_COOKIE, _NO_COOKIE)


def _listed(request: bytes) -> list[bytes]:
    try:
        return netlink.dump(_SOCK_DIAG_BY_FAMILY, request, netlink.SOCK_DIAG)
    except OSError as error:
        if error.errno == errno.ENOENT:  # the kernel knows no sockets of that family
            return []
        raise _failure(error) from None


def _failure(error: OSError) -> HostccError:
    return HostccError(f"sock_diag: {error.strerror or error}")
