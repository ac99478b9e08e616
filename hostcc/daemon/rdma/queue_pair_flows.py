"""Makes flows of what jobs' queue pairs send, and a view of this host to plan by.  Pure.

The view is for hosts that follow no plan of the cluster: it holds this host's RDMA flows only,
with its PCIe links as links (Crux, SIGCOMM 2024, treats them alike), and says of a job that was
not measured that a second of it is an iteration, in which it sends all the time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from hostcc.daemon.gossip.rdma_profiles import assumed, period_s
from hostcc.daemon.rdma.pairs import Pair
from hostcc.model import ClusterView, Flow, JobProfile, Path, PathTable

UNKNOWN_BYTES_PER_S = 1.25e9
"""Of links of which nothing is known: the same for all, so that they count alike."""
OWN_SHARE = 0.5
"""A guess: the share of a link beyond this host that other hosts leave to it."""
LEAST_BYTES_PER_S = 1e3
"""Slower routes count as silent."""


@dataclass(frozen=True, order=True)
class QueuePairRoute:
    """From where to where queue pairs of a job send."""

    job: str
    device: str
    source: str
    destination: str

    @property
    def flow(self) -> str:
        """Name of the flow in this host's own view."""
        return f"{self.job}/{self.source}>{self.destination}"


def route_of(job: str, pair: Pair) -> QueuePairRoute:
    """Return the route of a job's queue pair."""
    return QueuePairRoute(job, pair.device, pair.source, pair.destination)


def view(
    rates: Mapping[QueuePairRoute, float],
    tables: Mapping[tuple[str, str], PathTable],
    inside: Mapping[QueuePairRoute, tuple[str, ...]],
    capacities: Mapping[str, float],
    profiles: Mapping[str, JobProfile],
    on: Mapping[QueuePairRoute, str],
    weights: Mapping[str, float],
) -> ClusterView:
    """Return a view of this host's RDMA traffic alone.

    `tables`: (source, destination) -> paths through the fabric; `inside`: PCIe links that a way
    takes first; `capacities`: bytes per second of links, where known; `on`: the path that a way
    is on now.
    """
    sending = {way: rate for way, rate in sorted(rates.items()) if rate >= LEAST_BYTES_PER_S}
    flows, whole = [], {}
    for way, rate in sending.items():
        table = tables.get((way.source, way.destination)) or _unknown(way)
        key = f"{way.job}/{way.device}/{way.source}", way.destination
        paths = tuple(replace(p, links=(*inside.get(way, ()), *p.links)) for p in table.paths)
        whole[key] = PathTable(*key, paths)
        size = rate * period_s(profiles.get(way.job))
        flows.append(
            Flow(way.flow, way.job, *key, bytes=size, protocol="roce",
                 path=on.get(way, ""))
        )  # fmt: skip
    links = {link for table in whole.values() for path in table.paths for link in path.links}
    jobs = sorted({way.job for way in sending})
    own = {link for way in sending for link in (f"{way.source}>", f">{way.destination}")}
    known = {**dict.fromkeys(own, UNKNOWN_BYTES_PER_S), **capacities}
    guess = OWN_SHARE * min((known[link] for link in own), default=UNKNOWN_BYTES_PER_S)
    return ClusterView(
        jobs=tuple(assumed(job, profiles.get(job), weights.get(job, 1.0)) for job in jobs),
        flows=tuple(_once(flows)),
        tables=tuple(whole.values()),
        links=tuple((link, known.get(link, guess)) for link in sorted(links)),
    )


def _unknown(way: QueuePairRoute) -> PathTable:
    """No path is known: its own links are."""
    links = (f"{way.source or way.device}>", f">{way.destination}")
    return PathTable(way.source, way.destination, (Path("", links),))


def _once(flows: Iterable[Flow]) -> Iterable[Flow]:
    """Two devices with one address cannot be told apart by the flow's name."""
    return {flow.id: flow for flow in flows}.values()
