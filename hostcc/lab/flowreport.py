"""Pure: report which path each flow took, and when paths had settled, from spines' counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from hostcc.lab.segments import Segment, edges, settled_s, ways


class WayResult(msgspec.Struct, frozen=True):
    """A connection over one spine with one mark; seconds since the common start."""

    spine: int
    dscp: int
    src_port: int
    """On the wire."""
    bytes: int
    first_s: float
    last_s: float


class FlowResult(msgspec.Struct, frozen=True):
    """All connections from one host of a job to another."""

    job: str
    src: str
    dst: str
    spines: list[int]
    """That its connections were on at the end."""
    dscp: list[int]
    """Marks at the end."""
    ways: list[WayResult]
    """All that there were, in the order of their beginning."""


class SettledResult(msgspec.Struct, frozen=True):
    """How long flows went on changing after something had happened."""

    what: str
    at_s: float
    seconds: float | None
    """Until the last change of way or mark before the next thing; None: something stood still."""


FlowSnapshot = tuple[float, tuple[Segment, ...]]


def flow_results(
    segments: Sequence[Segment],
    start_s: float,
    hosts: Mapping[str, str],
    jobs: Mapping[int, tuple[str, int]],
) -> list[FlowResult]:
    """Every edge; `hosts`: address -> name, `jobs`: port -> name, connections per edge."""
    found = []
    for (src, dst, port), mine in edges(segments).items():
        if port not in jobs:
            continue
        name, count = jobs[port]
        spines, marks = ways(mine, count)
        passed = [
            WayResult(
                one.spine, one.dscp, one.src_port, one.bytes,
                one.first_s - start_s, one.last_s - start_s,
            )
            for one in sorted(mine, key=lambda one: one.first_s)
        ]  # fmt: skip
        found.append(
            FlowResult(
                name, hosts.get(src, src), hosts.get(dst, dst), list(spines), list(marks), passed
            )
        )
    return sorted(found, key=lambda flow: (flow.job, flow.src, flow.dst))


def settled_results(
    snapshots: Sequence[FlowSnapshot],
    start_s: float,
    happened: Sequence[tuple[float, str]],
    connections: Mapping[int, int],
    ended: Mapping[int, float],
) -> list[SettledResult]:
    """`happened`: (seconds since the start, what), in order; `connections` per edge and when a
    job has ended (CLOCK_MONOTONIC), by the job's port."""
    found = []
    for index, (at, what) in enumerate(happened):
        end = happened[index + 1][0] if index + 1 < len(happened) else float("inf")
        within = [segments for moment, segments in snapshots if moment - start_s <= end]
        if within:
            begin = start_s + at
            there = {port: n for port, n in connections.items() if ended.get(port, begin) > begin}
            seconds = settled_s(within[-1], there, begin)
            found.append(SettledResult(what, at, seconds))
    return found
