"""Names and addresses of a leaf-spine fabric: pure, so that tests and drawings agree with it.

    h1  h2      h3  h4        hosts: one namespace, one interface, eth0
     \\  /        \\  /
     leaf1       leaf2        every leaf has a link to every spine: as many paths between
      |  \\_____/  |           two leaves as there are spines
      |  /     \\  |
    spine1     spine2

IPv4 in 198.18.0.0/15 (the benchmarking range), IPv6 in fd00:4843::/32.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from enum import StrEnum

from hostcc.lab.errors import LabError

MAX_LEAVES, MAX_SPINES, MAX_HOSTS = 32, 60, 60
MANAGEMENT = 128
"""Third byte of the agents' network in 198.19.0.0/16, from here on by leaf."""
MANAGEMENT_NETWORK = f"198.19.{MANAGEMENT}.0/17"


class Ipv6Hash(StrEnum):
    """What the switches choose a path of IPv6 by; of IPv4 it is always addresses and ports."""

    PORTS = "ports"
    LABEL = "label"
    """Addresses and flow label."""


class Queueing(StrEnum):
    """What waits in front of a link between leaf and spine."""

    FIFO = "fifo"
    STRICT = "strict"
    """A queue for each level, the higher first."""
    SHARES = "shares"
    """A queue for each level, each with its share."""


@dataclass(frozen=True)
class LeafSpineSpec:
    """Size and behaviour of a fabric."""

    leaves: int = 2
    spines: int = 4
    hosts_per_leaf: int = 1
    mtu: int = 1500
    rate_mbit: float = 0.0
    """Of each direction of each link between leaf and spine; 0: not shaped."""
    buffer_packets: int = 100
    """Queue in front of a shaped link."""
    icmp_interval_ms: int = 10
    """A switch sends errors to one host this far apart, after a burst of six; 0: no limit."""
    ipv6_hash: Ipv6Hash = Ipv6Hash.PORTS
    host_mbit: float = 0.0
    """Of each direction of each host's link; 0: not shaped."""
    queues: Queueing = Queueing.FIFO
    levels: tuple[int, ...] = ()
    """DSCP of each queue, the highest first; what is not marked has one more."""
    hash_seed: int = 0
    """Of the switches' ECMP, where the kernel lets it be chosen (Linux 6.11); 0: by chance."""
    management: bool = False
    """Whether hosts have a second interface, `mgmt0`, to a network of their own."""
    single_packets: int = 0
    """Segmentation offload is off and a host sends at most so many packets at once; 0: as the
    kernel likes, which is faster but makes queues move in steps of 64 kB."""
    rto_min_us: int = 0
    """Minimum retransmission timeout of hosts; 0: the kernel's."""
    base_rtt_us: int = 0
    """Round-trip time without queueing; up to 50: what the namespaces have by themselves."""

    def __post_init__(self) -> None:
        for name, value, most in (
            ("leaves", self.leaves, MAX_LEAVES),
            ("spines", self.spines, MAX_SPINES),
            ("hosts_per_leaf", self.hosts_per_leaf, MAX_HOSTS),
        ):
            if not 1 <= value <= most:
                raise LabError(f"{name}: expected 1 to {most}, got {value}")


@dataclass(frozen=True)
class FabricHost:
    """A host; `leaf` and `port` count from 0."""

    name: str
    leaf: int
    port: int

    @property
    def address(self) -> str:
        """IPv4, in a /30 with its leaf."""
        return f"198.18.{self.leaf}.{4 * self.port + 2}"

    @property
    def gateway(self) -> str:
        """The leaf's side of that."""
        return f"198.18.{self.leaf}.{4 * self.port + 1}"

    @property
    def management(self) -> str:
        """IPv4 on the network of the agents, in a /30 with its switch."""
        return f"198.19.{MANAGEMENT + self.leaf}.{4 * self.port + 2}"

    @property
    def management_gateway(self) -> str:
        """The switch's side of that."""
        return f"198.19.{MANAGEMENT + self.leaf}.{4 * self.port + 1}"

    @property
    def address6(self) -> str:
        """IPv6, in a /64 with its leaf."""
        return _plain(f"fd00:4843:{0x100 + self.leaf:x}:{self.port:x}::2")

    @property
    def gateway6(self) -> str:
        """The leaf's side of that."""
        return _plain(f"fd00:4843:{0x100 + self.leaf:x}:{self.port:x}::1")


@dataclass(frozen=True)
class FabricLink:
    """A link between leaf and spine, both counted from 0."""

    leaf: int
    spine: int

    @property
    def leaf_name(self) -> str:
        """Name of the leaf, and of the spine's interface to it."""
        return leaf_name(self.leaf)

    @property
    def spine_name(self) -> str:
        """Name of the spine, and of the leaf's interface to it."""
        return f"spine{self.spine + 1}"

    def address(self, *, of_spine: bool) -> str:
        """IPv4 of one end, in a /30."""
        return f"198.19.{self.leaf}.{4 * self.spine + 1 + of_spine}"

    def address6(self, *, of_spine: bool) -> str:
        """IPv6 of one end, in a /64."""
        return _plain(f"fd00:4843:{0x200 + self.leaf:x}:{self.spine:x}::{1 + of_spine}")


def leaf_name(leaf: int) -> str:
    """Name of a leaf, counted from 0."""
    return f"leaf{leaf + 1}"


def loopback6(leaf: int) -> str:
    """The address that a leaf's ICMPv6 errors to hosts of other leaves come from."""
    return _plain(f"fd00:4843:300:{leaf:x}::1")


def prefix(leaf: int) -> str:
    """IPv4 of a leaf's hosts."""
    return f"198.18.{leaf}.0/24"


def prefix6(leaf: int) -> str:
    """IPv6 of a leaf's hosts."""
    return f"fd00:4843:{0x100 + leaf:x}::/48"


def hosts_of(spec: LeafSpineSpec) -> tuple[FabricHost, ...]:
    """h1, h2 ...: those of the first leaf first."""
    places = [(leaf, port) for leaf in range(spec.leaves) for port in range(spec.hosts_per_leaf)]
    return tuple(FabricHost(f"h{n}", leaf, port) for n, (leaf, port) in enumerate(places, 1))


def links_of(spec: LeafSpineSpec) -> tuple[FabricLink, ...]:
    """All links between leaves and spines."""
    return tuple(FabricLink(x, y) for x in range(spec.leaves) for y in range(spec.spines))


def _plain(address: str) -> str:
    """The one spelling that the kernel uses, too."""
    return str(ipaddress.ip_address(address))
