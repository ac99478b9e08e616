"""BPF programs that the kernel holds, whoever loaded them."""

from __future__ import annotations

import ctypes
from pathlib import Path

from hostcc.bpf.loader.libbpf import lib

AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
OURS = "hcc_"
"""Prefix of what agents register."""


def count() -> int:
    """How many programs are loaded."""
    following = lib().bpf_prog_get_next_id
    following.restype = ctypes.c_int
    following.argtypes = (ctypes.c_uint32, ctypes.POINTER(ctypes.c_uint32))
    found, identity = 0, ctypes.c_uint32(0)
    while following(identity.value, identity) == 0:
        found += 1
    return found


def registered() -> frozenset[str]:
    """Congestion controls of agents that the kernel offers now."""
    return frozenset(name for name in AVAILABLE.read_text().split() if name.startswith(OURS))
