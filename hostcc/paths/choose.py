"""Chooses the source port of a flow.  Pure."""

from __future__ import annotations

from collections.abc import Callable

from hostcc.errors import InputError
from hostcc.model import PathTable

LAST_PORT = 65_535
FIRST_WIRE_PORT, LAST_WIRE_PORT = 61_000, LAST_PORT
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
    return _text({*_ports(text), *range(first, last + 1)})


def given_back(text: str, before: str, after: str) -> str:
    """Remove the ports from the value as it is that made `after` of `before`.

    Raises InputError when one of them is no such value.
    """
    return _text(_ports(text) - (_ports(after) - _ports(before)))


def _ports(text: str) -> set[int]:
    found = set[int]()
    for part in filter(None, text.strip().split(",")):
        low, _, high = part.partition("-")
        try:
            found.update(range(int(low), min(int(high or low), LAST_PORT) + 1))
        except ValueError:
            raise InputError(
                f"ip_local_reserved_ports: expected port ranges, got {text!r:.60}"
            ) from None
    return found


def _text(ports: set[int]) -> str:
    spans: list[tuple[int, int]] = []
    for port in sorted(ports):
        if spans and port == spans[-1][1] + 1:
            spans[-1] = (spans[-1][0], port)
        else:
            spans.append((port, port))
    return ",".join(f"{start}-{end}" if end > start else str(start) for start, end in spans)
