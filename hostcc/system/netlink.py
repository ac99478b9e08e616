"""Netlink: opens its sockets, sends questions and orders, takes answers and attributes apart.

Everything here that speaks netlink does it through this module, in the network namespace of the
calling thread.  Agents use `dump`, `get`, `order` and `listen`, not pyroute2: that takes 9.5 MB
resident and 0.7 s to load, wants an event loop for each question, and lacks TCA_BPF_ID.
Commands that end use it by `with_pyroute2`.  Two tools of iproute2 stay beside it, each with its
reason where it is run: `tc` for making queues, `rdma` for counters by process.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")

ROUTE, SOCK_DIAG = socket.NETLINK_ROUTE, 4
"""Protocols (linux/netlink.h): devices, addresses, routes and traffic control; sockets."""
CREATE = 0x600
"""Flags of an order to make what is not there yet (NLM_F_EXCL, NLM_F_CREATE)."""
TC_MESSAGE = struct.Struct("=BxxxiIII")
"""struct tcmsg (linux/rtnetlink.h): family, device, handle, parent, information."""
TC_KIND, TC_OPTIONS = 1, 2
"""TCA_KIND, TCA_OPTIONS (linux/rtnetlink.h)."""

_TYPE_BITS = 0x3FFF  # without NLA_F_NESTED and NLA_F_NET_BYTEORDER
_REQUEST, _INTERRUPTED, _ACK, _DUMP = 0x1, 0x10, 0x4, 0x300
_ERROR, _DONE = 2, 3
_HEAD = struct.Struct("=IHHII")
_ANSWER_S = 5.0
# The kernel sends 32 kB at a time, and more only where one device has so much to tell.
_ANSWER_BYTES = 1 << 18
_MAX_DUMPS = 5

Messages = list[tuple[int, int, bytes]]
"""Type, flags and content of each."""


class RefusedError(OSError):
    """The kernel answered with an error."""


def dump(kind: int, request: bytes, protocol: int = ROUTE) -> list[bytes]:
    """Ask for a list (`kind`: RTM_GET...); returns the content of its messages.

    A list that changed while the kernel wrote it is asked for again, a few times.  Raises
    RefusedError, and OSError where there is no answer, or never a whole one.
    """
    for _ in range(_MAX_DUMPS):
        found = _answer(protocol, kind, _DUMP, request)
        if not any(flags & _INTERRUPTED for _, flags, _ in found):
            return [body for _, _, body in found[:-1]]
    raise OSError(errno.EAGAIN, "netlink: it changes all the time")


def get(kind: int, request: bytes, protocol: int = ROUTE) -> bytes:
    """Ask for one object; returns its message's content.

    Raises RefusedError, also where there is none, and OSError where there is no answer.
    """
    found = _answer(protocol, kind, _ACK, request)
    if len(found) < 2:
        raise OSError(errno.ENODATA, "netlink: nothing but an acknowledgement")
    return found[0][2]


def order(kind: int, flags: int, request: bytes) -> None:
    """Have rtnetlink change something (`kind`: RTM_NEW..., RTM_DEL...).

    Raises RefusedError, and OSError where there is no answer.
    """
    _answer(ROUTE, kind, _ACK | flags, request)


def listen(groups: int) -> socket.socket:
    """Open a non-blocking socket that gets rtnetlink's events (`groups`: RTMGRP_...).

    `messages` takes apart what it receives.  Raises OSError.
    """
    sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_NONBLOCK, ROUTE)
    try:
        sock.bind((0, groups))
    except OSError:
        sock.close()
        raise
    return sock


def with_pyroute2(question: Callable[[Any], T]) -> T:
    """Return what `question(ip)` returns; `ip` is a pyroute2.IPRoute.  Raises OSError.

    It waits in an event loop of its own, which no thread with a running one can have: every
    question gets a thread, which is in the network namespace of the thread that asks.
    """

    def asked() -> T:
        from pyroute2 import IPRoute, NetlinkError

        try:
            with IPRoute() as ip:
                return question(ip)
        except NetlinkError as error:
            raise OSError(error.code, os.strerror(error.code)) from None

    with ThreadPoolExecutor(1, "pyroute2") as pool:
        return pool.submit(asked).result()


def messages(data: bytes) -> Messages:
    """Split a datagram into its messages; one that is cut off is left out."""
    found, at = [], 0
    while at + _HEAD.size <= len(data):
        size, kind, flags, _, _ = _HEAD.unpack_from(data, at)
        if not _HEAD.size <= size <= len(data) - at:
            break
        found.append((kind, flags, data[at + _HEAD.size : at + size]))
        at += (size + 3) & ~3
    return found


def attributes(data: bytes) -> dict[int, bytes]:
    """Split attributes (struct rtattr): type -> content; one that is cut off is left out."""
    found, at = {}, 0
    while at + 4 <= len(data):
        size, kind = struct.unpack_from("=HH", data, at)
        if size < 4:
            break
        found[kind & _TYPE_BITS] = data[at + 4 : at + size]
        at += (size + 3) & ~3
    return found


def attribute(kind: int, content: bytes) -> bytes:
    """Encode one attribute, padded."""
    return struct.pack("=HH", 4 + len(content), kind) + content + bytes(-len(content) % 4)


def _answer(protocol: int, kind: int, flags: int, request: bytes) -> Messages:
    # The last message ends the answer: of a list NLMSG_DONE, else the acknowledgement.
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol) as sock:
        sock.settimeout(_ANSWER_S)
        head = _HEAD.pack(_HEAD.size + len(request), kind, _REQUEST | flags, 1, 0)
        sock.send(head + request)
        found: Messages = []
        while not found or found[-1][0] not in (_ERROR, _DONE):
            found += messages(sock.recv(_ANSWER_BYTES))
    end = found[-1][2]
    number = -struct.unpack_from("=i", end)[0] if len(end) >= 4 else 0
    if number > 0:
        raise RefusedError(number, os.strerror(number))
    return found
