"""Named fabrics as data: hosts with NICs, ToRs, aggregation and core switches, and their paths.

Sources: Crux (SIGCOMM'24), section 6 and figure 18; the released trace's topology; the routing
paper's generator; Cassini's thesis. What a source does not give, such as rates of uplinks, is an
argument.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np

from hostcc.errors import InputError
from hostcc.sim.flowsim.workload import Fabric, Ints

GBIT = 1e9 / 8
"""Bytes/s."""
PCIE_4_X16 = 31.5e9
"""Bytes/s of a PCIe 4.0 x16 link."""
CLASSES = ("pcie", "nic", "agg", "core")
"""PCIe switch to NIC, NIC to ToR, ToR to aggregation, aggregation to core."""
CRUX_HOSTS = 847
"""Of Crux's simulated clusters."""
MOST_SWITCHES = 65_536
MOST_HOSTS = 100_000


@dataclass(frozen=True)
class Topology:
    """Who is connected to whom; every connection is a link each way."""

    name: str
    nics: int
    """Of each host."""
    host_tors: tuple[tuple[int, ...], ...]
    """By host: the ToRs of each of its NICs, a port for each."""
    tor_aggs: tuple[tuple[int, ...], ...]
    """By ToR."""
    agg_cores: tuple[tuple[int, ...], ...]
    """By aggregation switch."""
    rates: Mapping[str, float]
    """Bytes/s of a link by class; without `pcie` NICs are not limited by it."""

    @cached_property
    def _ids(self) -> dict[tuple[str, int, int, int], int]:
        """(Class, ends ..., 0 up or 1 down) -> link; of hosts the first end is NIC and host."""
        ends: list[tuple[str, int, int]] = []
        nics = [(host, nic) for host in range(len(self.host_tors)) for nic in range(self.nics)]
        if "pcie" in self.rates:
            ends += [("pcie", host * self.nics + nic, 0) for host, nic in nics]
        ends += [
            ("nic", host * self.nics + nic, tor)
            for host, nic in nics
            for tor in self.host_tors[host]
        ]
        ends += [("agg", tor, agg) for tor, own in enumerate(self.tor_aggs) for agg in own]
        ends += [("core", agg, core) for agg, own in enumerate(self.agg_cores) for core in own]
        pairs = ((*end, way) for end in ends for way in (0, 1))
        return {key: number for number, key in enumerate(pairs)}

    def link(self, kind: str, one: int, other: int, way: int) -> int | None:
        """Return the link between two ends, up (0) or down (1); None: there is none."""
        return self._ids.get((kind, one, other, way))

    @cached_property
    def link_class(self) -> Ints:
        """(L,) index into CLASSES."""
        return np.array([CLASSES.index(key[0]) for key in self._ids], np.int64)

    @cached_property
    def link_rates(self) -> list[float]:
        """Bytes/s of each link."""
        return [self.rates[key[0]] for key in self._ids]

    @cached_property
    def fabric(self) -> Fabric:
        """The links as the simulation wants them. Raises InputError."""
        return Fabric.of(self.link_rates)

    def paths(self, source: tuple[int, int], destination: tuple[int, int]) -> list[tuple[int, ...]]:
        """Return all shortest paths from one (host, NIC) to another, as links.

        Within a host there is none to choose: one path without links. Raises InputError where
        the fabric is cut between them.
        """
        if source[0] == destination[0]:
            return [()]
        ids = self._ids
        one, other = (host * self.nics + nic for host, nic in (source, destination))
        head = (ids["pcie", one, 0, 0],) if "pcie" in self.rates else ()
        tail = (ids["pcie", other, 0, 1],) if "pcie" in self.rates else ()
        found = []
        ends = product(self.host_tors[source[0]], self.host_tors[destination[0]])
        for first, last in ends:
            up, down = ids["nic", one, first, 0], ids["nic", other, last, 1]
            found += [(*head, up, *middle, down, *tail) for middle in self._between(first, last)]
        if not found:
            raise InputError(
                f"{self.name}: expected a path between hosts {source[0]} and {destination[0]}"
            )
        least = min(map(len, found))
        return [path for path in found if len(path) == least]

    def _between(self, first: int, last: int) -> list[tuple[int, ...]]:
        """Return the shortest ways from ToR to ToR."""
        ids = self._ids
        if first == last:
            return [()]
        shared = [agg for agg in self.tor_aggs[first] if agg in self.tor_aggs[last]]
        if shared:
            return [(ids["agg", first, agg, 0], ids["agg", last, agg, 1]) for agg in shared]
        return [
            (
                ids["agg", first, up, 0],
                ids["core", up, core, 0],
                ids["core", down, core, 1],
                ids["agg", last, down, 1],
            )
            for up in self.tor_aggs[first]
            for down in self.tor_aggs[last]
            for core in self.agg_cores[up]
            if core in self.agg_cores[down]
        ]


def two_layer(
    name: str, hosts: int, tors: int, aggs: int, nics: int, rates: Mapping[str, float]
) -> Topology:
    """Return hosts spread evenly over ToRs, each of which is linked to all aggregation switches.

    Raises InputError.
    """
    if not (1 <= hosts <= MOST_HOSTS and 1 <= tors <= min(hosts, MOST_SWITCHES)):
        raise InputError(f"{name}: expected 1 to {MOST_HOSTS} hosts, and a host for each ToR")
    if not (1 <= aggs <= MOST_SWITCHES and 1 <= nics <= 64):
        raise InputError(f"{name}: expected an aggregation switch, and 1 to 64 NICs of a host")
    return Topology(
        name,
        nics,
        tuple((host * tors // hosts,) for host in range(hosts)),
        (tuple(range(aggs)),) * tors,
        ((),) * aggs,
        dict(rates),
    )


def crux_clos(
    uplink: float = 200 * GBIT, nic: float = 200 * GBIT, hosts: int = CRUX_HOSTS
) -> Topology:
    """Return Crux's two-layer Clos: 173 ToRs with up to 5 of 847 hosts, 16 aggregation switches.

    With more hosts ToRs have more. Raises InputError.
    """
    return two_layer("crux-clos", hosts, 173, 16, 4, {"nic": nic, "agg": uplink})


def crux_double(
    uplink: float = 200 * GBIT,
    core: float = 200 * GBIT,
    port: float = 100 * GBIT,
    hosts: int = CRUX_HOSTS,
) -> Topology:
    """Return Crux's double-sided fabric: 6 ToRs in pairs, 12 aggregation and 32 core switches.

    Each host is linked to both ToRs of its pair by eight ports, two of each NIC. The source does
    not say how the upper layers are wired: here each ToR is linked to all aggregation switches and
    each of these to all cores, so no shortest path needs a core.
    """
    pairs = [(2 * pair, 2 * pair + 1) for pair in range(3)]
    return Topology(
        "crux-double",
        4,
        tuple(pairs[host * 3 // hosts] for host in range(hosts)),
        (tuple(range(12)),) * 6,
        (tuple(range(32)),) * 12,
        {"nic": port, "agg": uplink, "core": core},
    )


def crux_testbed() -> Topology:
    """Return Crux's testbed (figure 18): 12 hosts below 6 ToRs, 8 aggregation switches."""
    rates = {"pcie": PCIE_4_X16, "nic": 200 * GBIT, "agg": 200 * GBIT}
    return two_layer("crux-testbed", 12, 6, 8, 4, rates)


def routing() -> Topology:
    """Return the routing paper's fabric: 2,048 NICs below 64 ToRs, 32 spines, 100 Gbit/s."""
    return two_layer("routing", 2048, 64, 32, 1, {"nic": 100 * GBIT, "agg": 100 * GBIT})


def thesis_link() -> Topology:
    """Return one link of 50 Gbit/s that all flows cross: two hosts, each below its own ToR."""
    return two_layer("thesis-link", 2, 2, 1, 1, {"nic": 50 * GBIT, "agg": 50 * GBIT})


def thesis_cluster() -> Topology:
    """Return the cluster of Cassini's thesis: 24 servers, 13 switches, 48 links of 50 Gbit/s, 2:1.

    Its wiring is not published. A tree with these counts stands for it: four servers below each of
    6 ToRs, two uplinks of a ToR to one half of 4 aggregation switches, and 3 cores.
    """
    halves = ((0, 1), (2, 3))
    return Topology(
        "thesis-cluster",
        1,
        tuple((server // 4,) for server in range(24)),
        tuple(halves[tor // 3] for tor in range(6)),
        ((0, 1, 2),) * 4,
        dict.fromkeys(("nic", "agg", "core"), 50 * GBIT),
    )


def released(
    pods: Sequence[str],
    tors: Sequence[str],
    uplink: float = 200 * GBIT,
    core: float = 200 * GBIT,
    nic: float = 200 * GBIT,
) -> Topology:
    """Return the released topology: a ToR is linked to its pod's switch, pods to one core.

    `pods` and `tors` are by host, as hostcc.sim.released has them. Raises InputError.
    """
    if len(pods) != len(tors) or not 1 <= len(pods) <= MOST_HOSTS:
        raise InputError(f"released: expected 1 to {MOST_HOSTS} hosts, a pod and a ToR of each")
    pod_of: dict[str, str] = {}
    for pod, tor in zip(pods, tors, strict=True):
        if pod_of.setdefault(tor, pod) != pod:
            raise InputError(f"released: expected ToR {tor!r:.40} in one pod")
    names = {tor: number for number, tor in enumerate(sorted(pod_of))}
    switches = {pod: number for number, pod in enumerate(sorted(set(pods)))}
    return Topology(
        "released",
        4,
        tuple((names[tor],) for tor in tors),
        tuple((switches[pod_of[tor]],) for tor in names),
        ((0,),) * len(switches),
        {"nic": nic, "agg": uplink, "core": core},
    )


NAMED: dict[str, Callable[[], Topology]] = {
    "crux-clos": crux_clos,
    "crux-double": crux_double,
    "crux-testbed": crux_testbed,
    "routing": routing,
    "thesis-link": thesis_link,
    "thesis-cluster": thesis_cluster,
}
"""Fabrics that need no file, with their default rates."""
