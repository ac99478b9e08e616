"""Netlink: questions that the kernel answers with a list, orders, attributes (struct rtattr)."""

from __future__ import annotations

import errno
import os
import socket
import struct

_KIND = 0x3FFF  # without NLA_F_NESTED and NLA_F_NET_BYTEORDER
_REQUEST, _INTERRUPTED, _ACK, _DUMP = 0x1, 0x10, 0x4, 0x300
NEW = 0x600
"""Flags of an order to make what is not there yet (NLM_F_EXCL, NLM_F_CREATE; linux/netlink.h)."""
_ERROR, _DONE = 2, 3
_HEAD = struct.Struct("=IHHII")
_ANSWER_S = 5.0
_ANSWER_BYTES = 1 << 18
"""The kernel sends 32 kB at a time, and more only where one device has so much to tell."""
_TRIES = 5

Messages = list[tuple[int, int, bytes]]
"""Kind, flags and content of each."""


class RefusedError(OSError):
    """The kernel does not do that."""


def dump(kind: int, request: bytes) -> list[bytes]:
    """Content of the messages with which rtnetlink answers a question (`kind`: RTM_GET...).

    The network namespace is that of the calling thread.  What changed meanwhile is asked again, a
    few times.  Raises RefusedError, and OSError where there is no answer, or never a whole one.
    """
    for _ in range(_TRIES):
        *bodies, (_, _, end) = found = _answered(kind, _REQUEST | _DUMP, request)
        _judge(end)
        if not any(flags & _INTERRUPTED for _, flags, _ in found):
            return [body for _, _, body in bodies]
    raise OSError(errno.EAGAIN, "netlink: it changes all the time")


def order(kind: int, flags: int, request: bytes) -> None:
    """Have rtnetlink change something in the namespace of the calling thread (`kind`: RTM_NEW...,
    RTM_DEL...).  Raises RefusedError, and OSError where there is no answer."""
    _judge(_answered(kind, _REQUEST | _ACK | flags, request)[-1][2])


def _answered(kind: int, flags: int, request: bytes) -> Messages:
    """The last one ends the answer."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as sock:
        sock.settimeout(_ANSWER_S)
        sock.send(_HEAD.pack(_HEAD.size + len(request), kind, flags, 1, 0) + request)
        found: Messages = []
        while not found or found[-1][0] not in (_ERROR, _DONE):
            found += messages(sock.recv(_ANSWER_BYTES))
    return found


def _judge(end: bytes) -> None:
    number = -struct.unpack_from("=i", end)[0] if len(end) >= 4 else 0
    if number > 0:
        raise RefusedError(number, os.strerror(number))


def messages(data: bytes) -> Messages:
    """What one datagram holds; what is cut off is left out."""
    found, at = [], 0
    while at + _HEAD.size <= len(data):
        size, kind, flags, _, _ = _HEAD.unpack_from(data, at)
        if not _HEAD.size <= size <= len(data) - at:
            break
        found.append((kind, flags, data[at + _HEAD.size : at + size]))
        at += (size + 3) & ~3
    return found


def attributes(data: bytes) -> dict[int, bytes]:
    """Kind -> content; what is cut off is left out."""
    found, at = {}, 0
    while at + 4 <= len(data):
        size, kind = struct.unpack_from("=HH", data, at)
        if size < 4:
            break
        found[kind & _KIND] = data[at + 4 : at + size]
        at += (size + 3) & ~3
    return found


def attribute(kind: int, content: bytes) -> bytes:
    """One, as it is sent."""
    return struct.pack("=HH", 4 + len(content), kind) + content + bytes(-len(content) % 4)
