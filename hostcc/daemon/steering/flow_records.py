"""Records for gossip: this host's large flows, their paths, links' capacities.  Pure."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import islice

from hostcc.config.sections.paths import PathsConfig
from hostcc.coord.core import quantise
from hostcc.coord.core.payloads import (
    MAX_CAPACITY,
    MAX_FLOWS,
    MAX_HOPS,
    MAX_LINKS,
    MAX_PATHS,
    FlowEntry,
    Flows,
    Links,
    PathEntry,
    Paths,
)
from hostcc.daemon.steering.elephants import Elephant, flow_id
from hostcc.daemon.steering.nics import Nic
from hostcc.daemon.steering.path_discovery import TargetPaths
from hostcc.daemon.steering.steering_state import SteeringState
from hostcc.model import Path
from hostcc.paths.steering_messages import FlowKey

MBIT = 125_000.0
"""Bytes per second of one Mbit/s."""
UNKNOWN_LINK_BYTES_PER_S = 10_000 * MBIT
"""Capacity taken for unknown links, so that they all count alike."""
MAX_PUBLISH_DELAY_S = 3.0
"""A large flow is published when its path is known, at the latest after this time."""
MAX_PORTS_PUBLISHED = 4
"""Example ports of each path."""
_NAME_MAX = 64

Pair = tuple[str, str]
"""(Own address, address of the other end)."""


class FarEnds:
    """Names the far ends of pairs of addresses.

    The first pair to a member has the member's name; paths between other addresses of the same
    hosts are others and get names of their own.
    """

    def __init__(self) -> None:
        self._names: dict[Pair, str] = {}

    def update(self, pairs: Mapping[Pair, str]) -> Mapping[Pair, str]:
        """Name these pairs (pair -> member); pairs that have a name keep it."""
        kept = {p: n for p, n in self._names.items() if pairs.get(p) in (n, n.rpartition(":")[0])}
        for pair in sorted(pairs.keys() - kept.keys()):
            member = pairs[pair]
            kept[pair] = member if member not in kept.values() else _longer(member, pair)
        self._names = kept
        return kept


def flows(
    picture: SteeringState,
    ends: Mapping[Pair, str],
    before: Mapping[str, Flows],
    later: Collection[FlowKey] = (),
) -> dict[str, Flows]:
    """Return job -> its large flows, the largest of too many.

    `before`: as published last; `later`: flows not to be published yet.
    """
    jobs: dict[str, list[Elephant]] = {}
    for key, one in picture.elephants.items():
        if key not in later:
            jobs.setdefault(one.connection.job, []).append(one)
    return {
        job: quantise.flows(
            tuple(
                FlowEntry(
                    id=flow_id(one.key),
                    dst=ends[one.key.src, one.key.dst],
                    bytes=one.bytes,
                    src_port=one.key.sport,
                    dst_port=one.key.dport,
                    path=picture.path_of(one.key),
                )
                for one in sorted(those, key=lambda one: (-one.bytes, one.key))[:MAX_FLOWS]
            ),
            before.get(job),
        )
        for job, those in jobs.items()
    }


def soon(picture: SteeringState, since: Mapping[FlowKey, float], now: float) -> frozenset[FlowKey]:
    """Find flows whose path is about to be known; `since`: when they became large, seconds.

    Published without a path they would be placed somewhere at once, and elsewhere a moment later.
    """
    return frozenset(
        key
        for key, at in since.items()
        if now - at < MAX_PUBLISH_DELAY_S and not picture.path_of(key)
    )


def paths(
    known: Iterable[TargetPaths],
    ends: Mapping[Pair, str],
    before: Callable[[str], Paths | None] = lambda _: None,
) -> dict[str, Paths]:
    """Return end -> all paths to it, whatever the destination port; of too many, the first by name.

    `before`: as published last, by end.  Ports are examples, and published ones stay while they
    are valid: connections' own ports change often, and each change would make another view.
    """
    ways: dict[str, dict[str, list[Path]]] = {}
    for one in sorted(known, key=lambda one: one.target.dst_port):
        end = ends.get((one.target.src, one.target.dst))
        if end is None or one.table is None:
            continue
        for path in one.table.paths:
            if len(path.links) <= MAX_HOPS:
                ways.setdefault(end, {}).setdefault(path.id, []).append(path)
    return {end: _told(found, before(end)) for end, found in ways.items()}


def _told(found: Mapping[str, Sequence[Path]], before: Paths | None) -> Paths:
    last = {entry.id: entry.ports for entry in before.paths} if before is not None else {}
    return Paths(
        tuple(
            PathEntry(name, found[name][0].links, _examples(found[name], last.get(name, ())))
            for name in sorted(found)[:MAX_PATHS]
        )
    )


def _examples(same: Sequence[Path], before: Sequence[int]) -> tuple[int, ...]:
    # Ports of a path, to several destination ports.
    kept = [port for port in before if any(port in path.ports for path in same)]
    fresh = (port for port in same[0].ports if port not in kept)
    return (*kept, *islice(fresh, max(0, MAX_PORTS_PUBLISHED - len(kept))))


def links(
    told: Collection[Paths],
    nics: Sequence[Nic],
    config: PathsConfig,
    beside: Mapping[str, float] | None = None,
) -> Links:
    """Return the capacities of this host's own links and of those on the published paths.

    `beside`: bytes per second of more links of this host's own; those on the paths count.
    """
    own: dict[str, float] = {}
    for nic in nics:
        for address in nic.addresses:
            own[f"{address}>"] = own[f">{address}"] = nic.bytes_per_s or UNKNOWN_LINK_BYTES_PER_S
    uses = Counter(link for one in told for path in one.paths for link in path.links)
    own |= {link: rate for link, rate in (beside or {}).items() if link in uses}
    rates: dict[str, float] = {}
    for one in told:
        for path in one.paths:
            first = min(
                (own[link] for link in path.links if link in own), default=UNKNOWN_LINK_BYTES_PER_S
            )
            for link in path.links:
                rates[link] = min(first, rates.get(link, first))
    names = [*own, *(link for link, _ in uses.most_common() if link not in own)]
    # The other host's own link is none of the fabric's: that host says better what it carries.
    theirs = {path.links[-1] for one in told for path in one.paths if path.links}
    fabric = {link: config.fabric_mbit_per_s for link in uses if link not in own.keys() | theirs}
    return Links(
        tuple(
            sorted(
                (link, _capacity(link, own, rates, fabric, config)) for link in names[:MAX_LINKS]
            )
        )
    )


def _capacity(
    link: str,
    own: Mapping[str, float],
    rates: Mapping[str, float],
    fabric: Mapping[str, float],
    config: PathsConfig,
) -> float:
    given = next((x.mbit_per_s for x in config.link if fnmatchcase(link, x.link)), None)
    if given is None:
        given = fabric.get(link) or None
    speed = own.get(link) or rates.get(link, UNKNOWN_LINK_BYTES_PER_S)
    return min(MAX_CAPACITY, speed if given is None else given * MBIT)


def _longer(member: str, pair: Pair) -> str:
    short = hashlib.blake2s("\0".join(pair).encode(), digest_size=3).hexdigest()
    return f"{member[: _NAME_MAX - 7]}:{short}"
