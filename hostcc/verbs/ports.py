"""UDP source ports of RoCEv2 and the flow labels that stand for them.  Pure.

The kernel and rdma-core derive the port from the flow label of the address vector
(rdma_flow_label_to_udp_sport), and the label from both queue pair numbers where it is 0
(rdma_calc_flow_label).
"""

from __future__ import annotations

from hostcc.errors import InputError

ROCE_PORT = 4791
FIRST, LAST = 0xC000, 0xFFFF
MAX_LABEL = 0xFFFFF


def port_of(label: int) -> int:
    """The source port of a flow label (20 bits)."""
    return ((label & 0x3FFF) ^ (label >> 14 & 0x3F)) | FIRST


def label_of(port: int) -> int:
    """A flow label, never 0, that gives a port.  Raises InputError."""
    if not FIRST <= port <= LAST:
        raise InputError(f"UDP source port {port}: expected {FIRST} to {LAST}")
    return port & 0x3FFF or 0x4001


def default_label(local: int, remote: int) -> int:
    """The label that stands in for 0: a digest of the two queue pairs' numbers."""
    mixed = local * remote & (1 << 64) - 1
    mixed ^= mixed >> 20
    mixed ^= mixed >> 40
    return mixed & MAX_LABEL
