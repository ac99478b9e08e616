"""Adds jobs' RDMA traffic, which no socket carries, to the records of flows.  Pure.

A host publishes one record of each job's flows and one of links; both contain connections and
queue pairs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from hostcc.coord.core import quantise
from hostcc.coord.core.payloads import (
    MAX_FLOWS,
    MAX_HOPS,
    MAX_PATHS,
    FlowEntry,
    Flows,
    PathEntry,
    Paths,
)
from hostcc.daemon.steering.elephants import STAY_FRACTION
from hostcc.daemon.steering.flow_records import MAX_PORTS_PUBLISHED, Pair
from hostcc.model import Flow, PathTable

FlowRecords = Mapping[str, Flows]
"""Job -> its flows."""


@dataclass(frozen=True)
class RdmaFlows:
    """RDMA flows, their possible paths, and capacities of links on these."""

    flows: tuple[Flow, ...] = ()
    """`id` is unique at this host; `src` names their common end here, `dst` is an address."""
    tables: Mapping[Pair, PathTable] = field(default_factory=dict)
    """(`src`, `dst`) -> paths."""
    capacities: Mapping[str, float] = field(default_factory=dict)
    """Link -> bytes per second."""

    def pairs(self, owners: Mapping[str, str]) -> dict[Pair, str]:
        """Return ends of flows -> member; `owners`: address -> member."""
        return {(one.src, one.dst): owners[one.dst] for one in self.flows if one.dst in owners}

    def jobs(self) -> set[str]:
        """Return the jobs of these flows."""
        return {one.job for one in self.flows}


def flows(
    records: FlowRecords,
    beside: RdmaFlows,
    ends: Mapping[Pair, str],
    before: FlowRecords,
    threshold: float,
) -> dict[str, Flows]:
    """Add flows of at least `threshold` bytes per iteration to `records`, the largest of too many.

    `before`: as published last.
    """
    jobs = {job: list(content.flows) for job, content in records.items()}
    for one in beside.flows:
        end, job = ends.get((one.src, one.dst)), before.get(one.job)
        known = job is not None and any(entry.id == one.id for entry in job.flows)
        if end is None or one.bytes < threshold * (STAY_FRACTION if known else 1.0):
            continue
        entry = FlowEntry(
            id=one.id, dst=end, bytes=one.bytes, protocol=one.protocol, src_port=one.src_port,
            dst_port=one.dst_port, path=one.path,
        )  # fmt: skip
        jobs.setdefault(one.job, []).append(entry)
    return {
        job: quantise.flows(
            tuple(sorted(those, key=lambda entry: (-entry.bytes, entry.id))[:MAX_FLOWS]),
            before.get(job),
        )
        for job, those in jobs.items()
    }


def paths(beside: RdmaFlows, ends: Mapping[Pair, str]) -> dict[str, Paths]:
    """Return end -> paths to it."""
    return {
        ends[pair]: Paths(tuple(_entries(table))[:MAX_PATHS])
        for pair, table in beside.tables.items()
        if pair in ends
    }


def _entries(table: PathTable) -> Iterable[PathEntry]:
    for path in sorted(table.paths, key=lambda path: path.id):
        if len(path.links) <= MAX_HOPS:
            yield PathEntry(path.id, path.links, path.ports[:MAX_PORTS_PUBLISHED])
