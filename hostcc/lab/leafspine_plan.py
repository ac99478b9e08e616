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

from hostcc.lab.errors import LabError
from hostcc.lab.topology import FabricSettings, Link, Port, Topology

MAX_LEAVES, MAX_SPINES, MAX_HOSTS = 32, 60, 60
MANAGEMENT = 128
"""Third byte of the agents' network in 198.19.0.0/16, from here on by leaf."""
MANAGEMENT_NETWORK = f"198.19.{MANAGEMENT}.0/17"


@dataclass(frozen=True, kw_only=True)
class LeafSpineSpec(FabricSettings):
    """Size and behaviour of a fabric."""

    leaves: int = 2
    spines: int = 4
    hosts_per_leaf: int = 1
    management: bool = False
    """Whether hosts have a second interface, `mgmt0`, to a network of their own."""

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
    def switch(self) -> str:
        """Name of its leaf."""
        return leaf_name(self.leaf)

    @property
    def prefix_bits(self) -> int:
        """Of the IPv4 network that it shares with its leaf."""
        return 30

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

    @property
    def ports(self) -> Link:
        """The leaf's end and the spine's."""
        return self._port(of_spine=False), self._port(of_spine=True)

    def address(self, *, of_spine: bool) -> str:
        """IPv4 of one end, in a /30."""
        return f"198.19.{self.leaf}.{4 * self.spine + 1 + of_spine}"

    def address6(self, *, of_spine: bool) -> str:
        """IPv6 of one end, in a /64."""
        return _plain(f"fd00:4843:{0x200 + self.leaf:x}:{self.spine:x}::{1 + of_spine}")

    def _port(self, *, of_spine: bool) -> Port:
        ends = self.leaf_name, self.spine_name
        switch, device = reversed(ends) if of_spine else ends
        address, address6 = self.address(of_spine=of_spine), self.address6(of_spine=of_spine)
        return Port(switch, device, address, address6, queue=f"{switch}>{device}")


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


def topology_of(spec: LeafSpineSpec) -> Topology:
    """Leaves, then spines; half of the delay is at the leaf of either end of a flow."""
    leaves = tuple(leaf_name(leaf) for leaf in range(spec.leaves))
    spines = tuple(FabricLink(0, spine).spine_name for spine in range(spec.spines))
    return Topology(
        leaves + spines,
        tuple(link.ports for link in links_of(spec)),
        hosts_of(spec),
        dict.fromkeys(leaves, spec.delay_us // 2),
    )


def _plain(address: str) -> str:
    """The one spelling that the kernel uses, too."""
    return str(ipaddress.ip_address(address))
