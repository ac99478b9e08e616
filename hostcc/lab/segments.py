"""Pure: which way flows went, as switches saw it, and when they had settled.

A segment is what one connection sent over one spine with one source port and mark.  A
connection that is moved or marked anew begins another segment; one that comes back continues
its old one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby


@dataclass(frozen=True, order=True)
class Segment:
    """Times in seconds, CLOCK_MONOTONIC."""

    src: str
    """Addresses."""
    dst: str
    dst_port: int
    src_port: int
    """On the wire."""
    spine: int
    """From 1."""
    dscp: int
    bytes: int
    first_s: float
    last_s: float

    @property
    def edge(self) -> tuple[str, str, int]:
        """What connections between two ranks of a job have in common."""
        return self.src, self.dst, self.dst_port


def edges(segments: Iterable[Segment]) -> dict[tuple[str, str, int], list[Segment]]:
    """Segments of each edge, the latest used first."""
    ordered = sorted(segments, key=lambda one: (one.edge, -one.last_s))
    return {edge: list(group) for edge, group in groupby(ordered, key=lambda one: one.edge)}


def settled_s(
    segments: Sequence[Segment], connections: Mapping[int, int], begin_s: float
) -> float | None:
    """Seconds from `begin_s` until the last change of way or mark; 0: there was none.

    `segments` as they stood at the end; `connections`: of each edge, by its job's port.  None:
    an edge has sent nothing since.
    """
    latest = begin_s
    for edge, mine in edges(segments).items():
        count = connections.get(edge[2], 0)
        if not count:
            continue
        if mine[0].last_s < begin_s:
            return None
        if len(mine) > count:  # else every connection is still on its first way
            ends = [one.last_s for one in mine[count:]]
            latest = max([latest, *ends, *(one.first_s for one in mine[:count])])
    return latest - begin_s


def ways(segments: Iterable[Segment], count: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Spines and marks of an edge's last `count` segments, each sorted."""
    last = sorted(segments, key=lambda one: -one.last_s)[:count]
    return tuple(sorted(one.spine for one in last)), tuple(sorted({one.dscp for one in last}))
