"""ECN marking at the bottleneck, and the count of marked packets."""

from __future__ import annotations

from pathlib import Path

from hostcc.lab import compile as compiler
from hostcc.lab import netns


def attach(namespace: str, device: str, threshold_packets: int) -> None:
    """Mark CE what leaves a device while its queue has `threshold_packets` or more."""
    program = compiler.bpf_object("ecn.bpf.c", [f"THRESHOLD={threshold_packets}"])
    netns.batch(
        "tc",
        [
            f"qdisc add dev {device} clsact",
            f"filter add dev {device} egress bpf da obj {program} sec tc",
        ],
        namespace,
    )


def marked_packets(namespace: str) -> int:
    """Packets with CE that a host has received."""
    return netns.inside(
        namespace, lambda: parse_marked(Path("/proc/thread-self/net/netstat").read_text())
    )


def parse_marked(text: str) -> int:
    """InCEPkts of a /proc/net/netstat."""
    rows = [line.split() for line in text.splitlines() if line.startswith("IpExt:")]
    if len(rows) != 2:
        return 0
    return int(dict(zip(rows[0], rows[1], strict=False)).get("InCEPkts", 0))
