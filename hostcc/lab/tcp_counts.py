"""What hosts' TCP counted while jobs ran: segments sent again, segments out of order."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from hostcc.lab import netns


@dataclass(frozen=True)
class TcpCounts:
    """Over all hosts, since their namespaces were made; subtract what was there before."""

    retransmitted: int = 0
    """Segments."""
    out_of_order: int = 0
    """Segments that arrived before an earlier one."""

    def __sub__(self, earlier: TcpCounts) -> TcpCounts:
        return TcpCounts(
            self.retransmitted - earlier.retransmitted,
            self.out_of_order - earlier.out_of_order,
        )


def read(namespaces: Iterable[str]) -> TcpCounts:
    """Sum over hosts."""
    texts = [netns.inside(name, _texts) for name in namespaces]
    return parse(texts)


def parse(texts: Iterable[str]) -> TcpCounts:
    """From the contents of /proc/net/snmp and /proc/net/netstat of each host."""
    sums: dict[str, int] = {}
    for text in texts:
        lines = text.splitlines()
        for names, values in pairwise(lines):
            head = names.split()
            if head[:1] == values.split()[:1] and len(head) > 1 and not head[1].isdigit():
                for name, value in zip(head[1:], values.split()[1:], strict=False):
                    key = f"{head[0]}{name}"
                    sums[key] = sums.get(key, 0) + int(value)
    return TcpCounts(
        sums.get("Tcp:RetransSegs", 0),
        sums.get("TcpExt:TCPOFOQueue", 0),
    )


def _texts() -> str:
    base = Path("/proc/thread-self/net")
    return (base / "snmp").read_text() + (base / "netstat").read_text()
