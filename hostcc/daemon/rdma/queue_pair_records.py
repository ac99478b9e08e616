"""What the other hosts are told of jobs' queue pairs: flows, ways, guessed profiles.  Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import replace

from hostcc.coord.core.payloads import MAX_HOPS
from hostcc.daemon.rdma.queue_pair_flows import LEAST_RATE, QueuePairRoute, assumed, period
from hostcc.daemon.steering.rdma_flows import RdmaFlows
from hostcc.model import Flow, JobProfile, Path, PathTable
from hostcc.paths.packets import ROCE_PORT

ROCE = "roce"
DIRECT = "direct"
"""The way to an end to which no paths are known: over the links of both ends."""
CLEARLY = 2.0
"""Times as much is clearly more."""


def flow_id(way: QueuePairRoute) -> str:
    """A way's name among this host's flows."""
    raw = "\0".join((way.job, way.device, way.source, way.destination))
    return f"{ROCE}-{hashlib.blake2s(raw.encode(), digest_size=6).hexdigest()}"


def beside(
    rates: Mapping[QueuePairRoute, float],
    tables: Mapping[tuple[str, str], PathTable],
    inside: Mapping[QueuePairRoute, tuple[str, ...]],
    capacities: Mapping[str, float],
    profiles: Mapping[str, JobProfile],
    on: Mapping[QueuePairRoute, tuple[str, int]],
) -> RdmaFlows:
    """Flows of all ways that something is sent on; parameters as of `flows.view`.

    `on`: path and source port that a way is on now, where that is known.
    """
    flows: list[Flow] = []
    ways: dict[tuple[str, str], PathTable] = {}
    for way, rate in sorted(rates.items()):
        if rate < LEAST_RATE or not way.source:
            continue
        first = inside.get(way, ())
        src = "/".join((ROCE, way.source, *first))
        path, port = on.get(way, ("", 0))
        flows.append(
            Flow(
                flow_id(way), way.job, src, way.destination,
                bytes=rate * period(profiles.get(way.job)), protocol=ROCE, src_port=port,
                dst_port=ROCE_PORT, path=path,
            )
        )  # fmt: skip
        table = tables.get((way.source, way.destination))
        known = table.paths if table is not None and table.paths else (_direct(way),)
        ways[src, way.destination] = PathTable(
            src, way.destination, tuple(_through(first, one) for one in known)
        )
    return RdmaFlows(tuple(flows), ways, dict(capacities))


def known(
    measured: Iterable[JobProfile], rates: Mapping[QueuePairRoute, float]
) -> tuple[list[JobProfile], dict[str, dict[str, float]]]:
    """What says something of jobs' iterations, and job -> destination -> RDMA bytes per second.

    A mere guess from what a job sends by sockets says nothing unless that is clearly more than by
    RDMA: sockets that only keep processes in step come and go as they like, and software RDMA is
    seen twice, by its queue pairs and as packets.
    """
    to: dict[str, dict[str, float]] = {}
    for way, rate in rates.items():
        if rate >= LEAST_RATE:
            job = to.setdefault(way.job, {})
            job[way.destination] = job.get(way.destination, 0.0) + rate

    def counts(one: JobProfile) -> bool:
        if one.confidence > 0 or one.work or one.job not in to:
            return True
        beside_it = sum(size for _, size in one.bytes_to) / one.period_s if one.period_s else 0.0
        return beside_it > CLEARLY * sum(to[one.job].values())

    return [one for one in measured if counts(one)], to


def profiles(
    measured: Iterable[JobProfile],
    rates: Mapping[QueuePairRoute, float],
    weights: Mapping[str, float],
) -> list[JobProfile]:
    """What others are told of jobs: `measured`, and guesses of what is not known of those that
    send by RDMA.  A job of which nothing was measured has a confidence of 0."""
    those, to = known(measured, rates)
    made = []
    for one in those:
        unknown = one.job in to and not one.work
        made.append(replace(one, work=assumed(one.job, one, one.weight).work) if unknown else one)
    guessed = to.keys() - {one.job for one in made}
    return made + [
        replace(
            assumed(job, None, weights.get(job, 1.0)),
            period_s=period(None), confidence=0.0,
            bytes_to=tuple((end, rate * period(None)) for end, rate in sorted(to[job].items())),
        )
        for job in sorted(guessed)
    ]  # fmt: skip


def planned(
    paths: Iterable[tuple[str, str]], member: str, ways: Iterable[QueuePairRoute]
) -> dict[QueuePairRoute, str]:
    """Way -> path, of what a plan says of flows (name, path); `member`: this host in it."""
    of = dict(paths)
    found = {way: of.get(named(member, way), "") for way in ways}
    return {way: path for way, path in found.items() if path}


def named(member: str, way: QueuePairRoute) -> str:
    """The name of a way's flow in plans."""
    return f"{member}/{flow_id(way)}"


def _direct(way: QueuePairRoute) -> Path:
    return Path(DIRECT, (f"{way.source}>", f">{way.destination}"))


def _through(first: tuple[str, ...], path: Path) -> Path:
    """A path with the PCIe links before it, as long as there is room for them."""
    links = (*first, *path.links)
    return replace(path, links=links) if len(links) <= MAX_HOPS else path
