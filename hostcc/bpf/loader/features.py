"""Asks this kernel what it can do, whatever its version."""

from __future__ import annotations

import functools
from pathlib import Path

KERNEL_BTF = Path("/sys/kernel/btf/vmlinux")


@functools.cache
def struct_ops_links() -> bool:
    """Check whether a link can hold a struct_ops, so that it ends with its process (Linux 6.4).

    The attach type for it is an enum constant, which the kernel's own type information
    names; False where there is none.
    """
    return _named(b"BPF_STRUCT_OPS")


@functools.cache
def tx_start_operation() -> bool:
    """Check whether the begin of sending is an operation of a congestion control (Linux 7.2).

    Before, it is an event of `cwnd_event`.
    """
    return _named(b"cwnd_event_tx_start")


def _named(name: bytes) -> bool:
    try:
        return b"\0" + name + b"\0" in KERNEL_BTF.read_bytes()
    except OSError:
        return False
