"""Chooses the source port of a flow.  Pure."""

from __future__ import annotations

from collections.abc import Callable

from hostcc.errors import InputError
from hostcc.model import PathTable

FIRST_WIRE_PORT, LAST_WIRE_PORT = 61_000, 65_535
"""Source ports that only steering uses, above the kernel's default range of 32768 to 60999."""


def port_for(
    table: PathTable, path: str, free: Callable[[int], bool], first: int = FIRST_WIRE_PORT,
    last: int = LAST_WIRE_PORT,
) -> int:  # fmt: skip
    """Find a free source port of the reserved range that reaches the path; 0: there is none.

    0 leaves the flow on ECMP: running out of ports never stops anything.
    """
    for one in table.paths:
        if one.id == path:
            return next((p for p in one.ports if first <= p <= last and free(p)), 0)
    return 0


def new_ports(
    table: PathTable, path: str, taken: frozenset[int], most: int, first: int = FIRST_WIRE_PORT,
    last: int = LAST_WIRE_PORT,
) -> tuple[int, ...]:  # fmt: skip
    """List at most `most` ports for new connections to the table's destination."""
    for one in table.paths:
        if one.id == path:
            good = (p for p in one.ports if first <= p <= last and p not in taken)
            return tuple(port for port, _ in zip(good, range(most), strict=False))
    return ()


def reserved(text: str, first: int, last: int) -> str:
    """Add a range to net.ipv4.ip_local_reserved_ports: the kernel never gives it out by itself.

    `text` is the value as it is ("8080,9000-9010", or empty).  Raises InputError when it is
    something else.
    """
    spans = [(first, last)]
    for part in filter(None, text.strip().split(",")):
        low, _, high = part.partition("-")
        try:
            spans.append((int(low), int(high or low)))
        except ValueError:
            raise InputError(
                f"ip_local_reserved_ports: expected port ranges, got {text!r:.60}"
            ) from None
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return ",".join(f"{start}-{end}" if end > start else str(start) for start, end in merged)
