"""Probes which UDP source ports take which path through the network with RoCE traffic.

RoCEv2 always goes to UDP port 4791, so one table serves all queue pairs between two
addresses.  Probes are UDP datagrams with a small TTL and too short to be RoCE (hostcc.paths).
"""

from __future__ import annotations

from collections.abc import Iterable

from hostcc.errors import InputError
from hostcc.paths import prober
from hostcc.paths.packets import UDP, Target
from hostcc.paths.search import Hops
from hostcc.verbs.ports import FIRST, LAST


def spread(count: int) -> tuple[int, ...]:
    """Choose `count` source ports of RoCE, far apart from each other.  Raises InputError."""
    size = LAST - FIRST + 1
    if not 1 <= count <= size:
        raise InputError(f"ports: expected 1 to {size}, got {count}")
    # 6257 is coprime to 2^14 and near its golden section: no run of neighbours.
    return tuple(FIRST + index * 6257 % size for index in range(count))


def routes(
    src: str,
    dst: str,
    ports: Iterable[int] | None = None,
    *,
    limit_s: float = 60.0,
) -> dict[Hops, tuple[int, ...]]:
    """Return path (its routers, in order) -> source ports that take it, the most usual path first.

    Empty where packets of one port take several paths.  Needs CAP_NET_RAW.  Raises HostccError,
    InputError for a port that RoCE cannot have.
    """
    chosen = spread(1024) if ports is None else tuple(ports)
    for port in chosen:
        if not FIRST <= port <= LAST:
            raise InputError(f"UDP source port {port}: expected {FIRST} to {LAST}")
    target = Target(src, dst, protocol=UDP)
    found = prober.search(target, chosen, limit_s=limit_s)
    if found.sprayed:
        return {}
    ordered = sorted(found.paths.items(), key=lambda item: (-len(item[1]), item[0]))
    return {hops: tuple(sorted(those)) for hops, those in ordered}
