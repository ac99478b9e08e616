"""What other hosts are told of jobs' queue pairs: flows and the paths they can take.  Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import replace

from hostcc.coord.core.payloads import MAX_HOPS
from hostcc.daemon.gossip.rdma_profiles import RdmaRates, period_s
from hostcc.daemon.rdma.queue_pair_flows import LEAST_BYTES_PER_S, QueuePairRoute
from hostcc.daemon.steering.rdma_flows import RdmaFlows
from hostcc.model import Flow, JobProfile, Path, PathTable
from hostcc.paths.packets import ROCE_PORT

ROCE = "roce"
DIRECT = "direct"
"""Path to a destination to which none is known: over the links of both ends."""


def flow_id(way: QueuePairRoute) -> str:
    """Name a route's flow among this host's flows."""
    raw = "\0".join((way.job, way.device, way.source, way.destination))
    return f"{ROCE}-{hashlib.blake2s(raw.encode(), digest_size=6).hexdigest()}"


def shared_flows(
    rates: Mapping[QueuePairRoute, float],
    tables: Mapping[tuple[str, str], PathTable],
    inside: Mapping[QueuePairRoute, tuple[str, ...]],
    capacities: Mapping[str, float],
    profiles: Mapping[str, JobProfile],
    on: Mapping[QueuePairRoute, tuple[str, int]],
) -> RdmaFlows:
    """Return flows of all routes that something is sent on; parameters as `queue_pair_flows.view`.

    `on`: path and source port that a route has now, where that is known.
    """
    flows: list[Flow] = []
    ways: dict[tuple[str, str], PathTable] = {}
    for way, rate in sorted(rates.items()):
        if rate < LEAST_BYTES_PER_S or not way.source:
            continue
        first = inside.get(way, ())
        src = "/".join((ROCE, way.source, *first))
        path, port = on.get(way, ("", 0))
        flows.append(
            Flow(
                flow_id(way), way.job, src, way.destination,
                bytes=rate * period_s(profiles.get(way.job)), protocol=ROCE, src_port=port,
                dst_port=ROCE_PORT, path=path,
            )
        )  # fmt: skip
        table = tables.get((way.source, way.destination))
        known = table.paths if table is not None and table.paths else (_direct(way),)
        ways[src, way.destination] = PathTable(
            src, way.destination, tuple(_through(first, one) for one in known)
        )
    return RdmaFlows(tuple(flows), ways, dict(capacities))


def rates_by_job(rates: Mapping[QueuePairRoute, float]) -> RdmaRates:
    """Return job -> destination -> bytes per second, of the routes that something is sent on."""
    to: dict[str, dict[str, float]] = {}
    for way, rate in rates.items():
        if rate >= LEAST_BYTES_PER_S:
            job = to.setdefault(way.job, {})
            job[way.destination] = job.get(way.destination, 0.0) + rate
    return to


def planned(
    paths: Iterable[tuple[str, str]], member: str, ways: Iterable[QueuePairRoute]
) -> dict[QueuePairRoute, str]:
    """Return route -> path, from the flows of a plan (name, path); `member`: this host in it."""
    of = dict(paths)
    found = {way: of.get(named(member, way), "") for way in ways}
    return {way: path for way, path in found.items() if path}


def named(member: str, way: QueuePairRoute) -> str:
    """Name a route's flow in plans."""
    return f"{member}/{flow_id(way)}"


def _direct(way: QueuePairRoute) -> Path:
    return Path(DIRECT, (f"{way.source}>", f">{way.destination}"))


def _through(first: tuple[str, ...], path: Path) -> Path:
    """A path with the PCIe links before it, as long as there is room for them."""
    links = (*first, *path.links)
    return replace(path, links=links) if len(links) <= MAX_HOPS else path
