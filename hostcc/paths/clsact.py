"""clsact: a qdisc at each device, and in it filters that are BPF programs."""

from __future__ import annotations

import errno
import socket
import struct

from hostcc.bpf.loader.errors import BpfError, system_error
from hostcc.system.netlink import (
    CREATE,
    TC_KIND,
    TC_MESSAGE,
    TC_OPTIONS,
    RefusedError,
    attribute,
    attributes,
    dump,
    order,
)

INGRESS, EGRESS = 0xFFFFFFF2, 0xFFFFFFF3
"""Parents of filters at the two hooks (TC_H_MIN_INGRESS, TC_H_MIN_EGRESS)."""
PRIORITY = 0xC1C0
"""Priority of our filters: late and odd, so that nobody else has it."""
_RTM_NEWQDISC, _RTM_NEWTFILTER, _RTM_DELTFILTER, _RTM_GETTFILTER = 36, 44, 45, 46
_HANDLE, _ROOT = 0xFFFF0000, 0xFFFFFFF1  # TC_H_CLSACT (linux/pkt_sched.h)
_BPF_FD, _BPF_NAME, _BPF_FLAGS, _BPF_ID = 6, 7, 8, 11
# TCA_BPF_FLAG_ACT_DIRECT: what the program returns is what becomes of the packet.
_DIRECT = 1
_ETH_P_ALL = 3


def add_qdisc(ifindex: int) -> None:
    """Make a device's clsact qdisc, unless it has one.  Raises BpfError."""
    where = TC_MESSAGE.pack(0, ifindex, _HANDLE, _ROOT, 0)
    try:
        _order(_RTM_NEWQDISC, CREATE, where + attribute(TC_KIND, b"clsact\0"))
    except BpfError as error:
        if error.errno != errno.EEXIST:
            raise


def add_filter(fd: int, ifindex: int, parent: int, name: str) -> None:
    """Add a loaded program, behind the others of its priority.  Raises BpfError."""
    options = (
        attribute(_BPF_FD, struct.pack("=I", fd))
        + attribute(_BPF_NAME, name.encode() + b"\0")
        + attribute(_BPF_FLAGS, struct.pack("=I", _DIRECT))
    )
    _order(_RTM_NEWTFILTER, CREATE, _at(ifindex, parent) + attribute(TC_OPTIONS, options))


def remove_filter(ifindex: int, parent: int, handle: int) -> None:
    """Remove one of ours.  Raises BpfError."""
    _order(_RTM_DELTFILTER, 0, _at(ifindex, parent, handle))


def filters(ifindex: int, parent: int) -> list[tuple[int, int]]:
    """List our filters: (handle, program id); none where the kernel refuses.  Raises OSError."""
    try:
        answers = dump(_RTM_GETTFILTER, TC_MESSAGE.pack(0, ifindex, 0, parent, 0))
    except RefusedError:
        return []
    found = []
    for answer in answers:
        _, index, handle, its_parent, info = TC_MESSAGE.unpack_from(answer)
        if (index, its_parent, info >> 16) != (ifindex, parent, PRIORITY):
            continue
        options = attributes(attributes(answer[TC_MESSAGE.size :]).get(TC_OPTIONS, b""))
        if _BPF_ID in options:
            found.append((handle, struct.unpack("=I", options[_BPF_ID])[0]))
    return found


def _at(ifindex: int, parent: int, handle: int = 0) -> bytes:
    # All our filters of a device have one priority and protocol.
    info = PRIORITY << 16 | socket.htons(_ETH_P_ALL)
    return TC_MESSAGE.pack(0, ifindex, handle, parent, info) + attribute(TC_KIND, b"bpf\0")


def _order(kind: int, flags: int, request: bytes) -> None:
    try:
        order(kind, flags, request)
    except OSError as error:
        raise system_error("traffic control refused", error.errno or 0) from None
