"""Asks this kernel what it can do, whatever its version."""

from __future__ import annotations

import functools
from pathlib import Path

KERNEL_BTF = Path("/sys/kernel/btf/vmlinux")
LINKS, TX_START = b"BPF_STRUCT_OPS", b"cwnd_event_tx_start"
"""Names in it: an enum constant, a member of a struct."""


def struct_ops_links() -> bool:
    """Check whether a link can hold a struct_ops, so that it ends with its process (Linux 6.4).

    The attach type for it is an enum constant, which the kernel's own type information
    names; False where there is none.
    """
    return LINKS in _names()


def tx_start_operation() -> bool:
    """Check whether the begin of sending is an operation of a congestion control (Linux 7.2).

    Before, it is an event of `cwnd_event`.
    """
    return TX_START in _names()


@functools.cache
def _names() -> frozenset[bytes]:
    # Those that are asked for, in one reading: the file has megabytes.
    try:
        known = KERNEL_BTF.read_bytes()
    except OSError:
        return frozenset()
    return frozenset(name for name in (LINKS, TX_START) if b"\0" + name + b"\0" in known)
