"""A leaf-spine fabric of network namespaces, whose switches choose paths by ECMP.

The kernel's own router does that, by a hash of addresses and ports; plan and addresses are
in leafspine_plan.  Nothing has a route out of the lab.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from hostcc.lab import compile as compiler
from hostcc.lab import netns, shaping
from hostcc.lab.fabric import Fabric
from hostcc.lab.leafspine_plan import (
    MANAGEMENT_NETWORK,
    FabricHost,
    FabricLink,
    LeafSpineSpec,
    leaf_name,
    links_of,
    loopback6,
    prefix,
    prefix6,
    topology_of,
)

MANAGEMENT = "mgmt"
"""The switch of the agents' own network, and the hosts' interface to it with a 0."""


class LeafSpine(Fabric):
    """The built fabric; a context manager that removes it whatever happens."""

    spec: LeafSpineSpec
    hosts: tuple[FabricHost, ...]

    def __init__(self, spec: LeafSpineSpec) -> None:
        super().__init__(spec, topology_of(spec))
        self.links = links_of(spec)
        self.dead: set[int] = set()
        """Spines, from 1, that leaves know to be gone."""

    def _parts(self) -> list[str]:
        return [*super()._parts(), *([MANAGEMENT] if self.spec.management else [])]

    def host(self, number: int) -> FabricHost:
        """A host by its number from 1."""
        return self.hosts[number - 1]

    def spine_down(self, spine: int) -> None:
        """A spine (from 1) dies: every leaf sees its link lose carrier."""
        for link in self._links_of(spine):
            netns.batch("ip", [f"link set {link.leaf_name} down"], self.namespace(link.spine_name))

    def spine_up(self, spine: int) -> None:
        """It is back, with its routes."""
        for link in self._links_of(spine):
            _, port = link.ports
            lines = self.port_commands(port) + _spine_routes(link)
            netns.batch("ip", lines, self.namespace(link.spine_name))

    def set_rate(self, leaf: str, spine: int, rate_mbit: float) -> None:
        """Give both directions of a shaped link another rate."""
        for link in self._links_of(spine):
            if link.leaf_name == leaf:
                for port in link.ports:
                    lines = shaping.rate_commands(port.device, self.spec, rate_mbit)
                    netns.batch("tc", lines, self.namespace(port.switch))

    def _links_of(self, spine: int) -> list[FabricLink]:
        return [link for link in self.links if link.spine == spine - 1]

    @contextmanager
    def link_down(self, link: FabricLink) -> Iterator[None]:
        """Within the block a link is down, and its leaf knows."""
        port, _ = link.ports
        leaf = self.namespace(port.switch)
        netns.batch("ip", [f"link set {port.device} down"], leaf)
        try:
            yield
        finally:
            netns.batch("ip", self.port_commands(port) + self._leaf_routes(link.leaf), leaf)

    def spine_ports(self) -> dict[str, list[str]]:
        """Namespace of each spine, from the first -> its devices."""
        ports: dict[str, list[str]] = {}
        for link in sorted(self.links, key=lambda link: link.spine):
            ports.setdefault(self.namespace(link.spine_name), []).append(link.leaf_name)
        return ports

    def routes(self, switch: str) -> list[str]:
        """Of a leaf: ECMP over all spines; of a spine: a link to each leaf."""
        for leaf in range(self.spec.leaves):
            if switch == leaf_name(leaf):
                address = f"addr replace {loopback6(leaf)}/128 dev lo nodad"
                return [address, *self._leaf_routes(leaf)]
        mine = [link for link in self.links if link.spine_name == switch]
        return [line for link in mine for line in _spine_routes(link)]

    def _leaf_routes(self, leaf: int) -> list[str]:
        """One route to each other leaf, with a next hop for every spine."""
        mine = [x for x in self.links if x.leaf == leaf and x.spine + 1 not in self.dead]
        hops = " ".join(f"nexthop via {x.address(of_spine=True)} dev {x.spine_name}" for x in mine)
        hops6 = " ".join(
            f"nexthop via {x.address6(of_spine=True)} dev {x.spine_name}" for x in mine
        )
        routes = []
        for other in range(self.spec.leaves if mine else 0):
            if other != leaf:
                routes.append(f"route replace {prefix(other)} {hops}")
                source = f"src {loopback6(leaf)}"
                routes.append(f"route replace {prefix6(other)} {source} {hops6}")
        return routes

    def _build(self) -> None:
        super()._build()
        self._forget_hashes()
        if self.spec.management:
            self._wire_management()

    def _wire_management(self) -> None:
        """A router that all hosts are connected to."""
        switch = self.namespace(MANAGEMENT)
        netns.set_sysctls(switch, {"net/ipv4/ip_forward": "1"})
        for host in self.hosts:
            name, device = self.namespace(host.name), f"{MANAGEMENT}0"
            netns.batch(
                "ip",
                [f"link add {host.name} netns {switch} type veth peer name {device} netns {name}"],
            )
            netns.batch(
                "ip",
                [
                    f"link set {host.name} up",
                    f"addr add {host.management_gateway}/30 dev {host.name}",
                ],
                switch,
            )
            netns.batch(
                "ip",
                [
                    f"link set {device} up",
                    f"addr add {host.management}/30 dev {device}",
                    f"route add {MANAGEMENT_NETWORK} via {host.management_gateway}",
                ],
                name,
            )

    def _forget_hashes(self) -> None:
        program = compiler.bpf_object("leafspine_hash.bpf.c")
        ports: dict[str, list[str]] = {switch: [] for switch in self.topology.switches}
        for link in self.topology.links:
            for port in link:
                ports[port.switch].append(port.device)
        for host in self.hosts:
            ports[host.switch].append(host.name)
        for switch, devices in ports.items():
            commands = []
            for device in devices:
                commands.append(f"qdisc add dev {device} clsact")
                commands.append(f"filter add dev {device} ingress bpf da obj {program} sec tc")
            netns.batch("tc", commands, self.namespace(switch))


def _spine_routes(link: FabricLink) -> list[str]:
    leaf, leaf6 = link.address(of_spine=False), link.address6(of_spine=False)
    return [
        f"route replace {prefix(link.leaf)} via {leaf}",
        f"route replace {prefix6(link.leaf)} via {leaf6}",
        f"route replace {loopback6(link.leaf)} via {leaf6}",
    ]
