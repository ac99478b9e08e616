"""Converts between UDP source ports of RoCEv2 and the flow labels that stand for them.  Pure.

The kernel and rdma-core derive the port from the flow label of the address vector
(rdma_flow_label_to_udp_sport).
"""

from __future__ import annotations

from hostcc.errors import InputError

FIRST, LAST = 0xC000, 0xFFFF


def port_of(label: int) -> int:
    """Compute the source port of a flow label (20 bits)."""
    return ((label & 0x3FFF) ^ (label >> 14 & 0x3F)) | FIRST


def label_of(port: int) -> int:
    """Compute a flow label, never 0, that gives a port.  Raises InputError."""
    if not FIRST <= port <= LAST:
        raise InputError(f"UDP source port {port}: expected {FIRST} to {LAST}")
    return port & 0x3FFF or 0x4001
