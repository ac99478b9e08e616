"""A leaf-spine fabric of network namespaces, whose switches choose paths by ECMP.

The kernel's own router does that, by a hash of addresses and ports; plan and addresses are
in leafspine_plan.  Nothing has a route out of the lab.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from hostcc.lab import cgroup, leafspine_queues, netns
from hostcc.lab import compile as compiler
from hostcc.lab.built import HOST_SYSCTLS, BuiltNetwork
from hostcc.lab.leafspine_plan import (
    MANAGEMENT_NETWORK,
    FabricHost,
    FabricLink,
    Ipv6Hash,
    LeafSpineSpec,
    Queueing,
    hosts_of,
    leaf_name,
    links_of,
    loopback6,
    prefix,
    prefix6,
)
from hostcc.lab.network import LabHost
from hostcc.lab.offload import disable_segmentation

MANAGEMENT = "mgmt"
"""The switch of the agents' own network, and the hosts' interface to it with a 0."""


class LeafSpine(BuiltNetwork):
    """The built fabric; a context manager that removes it whatever happens."""

    def __init__(self, spec: LeafSpineSpec) -> None:
        super().__init__()
        self.spec = spec
        self.hosts = hosts_of(spec)
        self.links = links_of(spec)
        self.dead: set[int] = set()
        """Spines, from 1, that leaves know to be gone."""

    def _parts(self) -> list[str]:
        extra = [MANAGEMENT] if self.spec.management else []
        return [*self._switches(), *extra, *(host.name for host in self.hosts)]

    def namespace_path(self, part: str) -> Path:
        """Path of the same."""
        return netns.NAMESPACE_DIRECTORY / self.namespace(part)

    def cgroup_of(self, host: LabHost) -> Path:
        """The group that all processes of a host live in."""
        return self.state.host_cgroup(host.name)

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
            netns.batch("ip", self._spine_lines(link), self.namespace(link.spine_name))

    def set_rate(self, leaf: str, spine: int, rate_mbit: float) -> None:
        """Give both directions of a shaped link another rate."""
        for link in self._links_of(spine):
            if link.leaf_name == leaf:
                ends = ((link.spine_name, leaf), (link.leaf_name, link.spine_name))
                for device, where in ends:
                    lines = leafspine_queues.rate_commands(device, self.spec, rate_mbit)
                    netns.batch("tc", lines, self.namespace(where))

    def _links_of(self, spine: int) -> list[FabricLink]:
        return [link for link in self.links if link.spine == spine - 1]

    @contextmanager
    def link_down(self, link: FabricLink) -> Iterator[None]:
        """Within the block a link is down, and its leaf knows."""
        leaf = self.namespace(link.leaf_name)
        netns.batch("ip", [f"link set {link.spine_name} down"], leaf)
        try:
            yield
        finally:
            netns.batch("ip", [f"link set {link.spine_name} up"], leaf)
            netns.batch("ip", self._leaf_addresses(link), leaf)
            netns.batch("ip", self._leaf_routes(link.leaf, "replace"), leaf)

    def spine_ports(self) -> dict[str, list[str]]:
        """Namespace of each spine, from the first -> its devices."""
        ports: dict[str, list[str]] = {}
        for link in sorted(self.links, key=lambda link: link.spine):
            ports.setdefault(self.namespace(link.spine_name), []).append(link.leaf_name)
        return ports

    def _switches(self) -> list[str]:
        spines = [FabricLink(0, spine).spine_name for spine in range(self.spec.spines)]
        return [*(leaf_name(leaf) for leaf in range(self.spec.leaves)), *spines]

    def _build(self) -> None:
        netns.create(self.state.namespaces)
        cgroup.create(Path(self.state.cgroup))
        for switch in self._switches():
            cgroup.create(self.state.host_cgroup(switch))
            netns.set_sysctls(self.namespace(switch), self._switch_sysctls())
        for link in self.links:
            self._wire_link(link)
        for host in self.hosts:
            self._wire_host(host)
        for leaf in range(self.spec.leaves):
            commands = [f"addr add {loopback6(leaf)}/128 dev lo nodad"]
            netns.batch(
                "ip", commands + self._leaf_routes(leaf, "add"), self.namespace(leaf_name(leaf))
            )
        self._forget_hashes()
        if self.spec.management:
            self._wire_management()

    def _switch_sysctls(self) -> dict[str, str]:
        interval = str(self.spec.icmp_interval_ms)
        label = self.spec.ipv6_hash is Ipv6Hash.LABEL
        return {
            "net/ipv4/ip_forward": "1",
            "net/ipv6/conf/all/forwarding": "1",
            "net/ipv4/conf/all/rp_filter": "0",
            "net/ipv4/conf/default/rp_filter": "0",
            "net/ipv4/fib_multipath_hash_policy": "1",
            "net/ipv4/fib_multipath_hash_seed": str(self.spec.hash_seed),
            # A link that has lost its carrier is no path, as soon as that is known.
            "net/ipv4/conf/all/ignore_routes_with_linkdown": "1",
            "net/ipv6/conf/all/ignore_routes_with_linkdown": "1",
            "net/ipv6/conf/default/ignore_routes_with_linkdown": "1",
            # 0 hashes addresses and flow label, 1 addresses and ports.
            "net/ipv6/fib_multipath_hash_policy": "0" if label else "1",
            "net/ipv4/icmp_errors_use_inbound_ifaddr": "1",
            "net/ipv4/icmp_ratelimit": interval,
            "net/ipv6/icmp/ratelimit": interval,
        }

    def _wire_link(self, link: FabricLink) -> None:
        leaf, spine = self.namespace(link.leaf_name), self.namespace(link.spine_name)
        add = f"link add {link.spine_name} netns {leaf} type veth peer name {link.leaf_name}"
        netns.batch("ip", [f"{add} netns {spine}"])
        mtu = self.spec.mtu
        netns.batch(
            "ip", [f"link set {link.spine_name} mtu {mtu} up", *self._leaf_addresses(link)], leaf
        )
        netns.batch("ip", self._spine_lines(link), spine)
        rate = self.spec.rate_mbit
        if rate:
            for device, where in ((link.spine_name, leaf), (link.leaf_name, spine)):
                netns.batch("tc", leafspine_queues.commands(device, self.spec, rate), where)

    def _spine_lines(self, link: FabricLink) -> list[str]:
        to_leaf, to_leaf6 = link.address(of_spine=False), link.address6(of_spine=False)
        return [
            f"link set {link.leaf_name} mtu {self.spec.mtu} up",
            f"addr replace {link.address(of_spine=True)}/30 dev {link.leaf_name}",
            f"addr replace {link.address6(of_spine=True)}/64 dev {link.leaf_name} nodad",
            f"route replace {prefix(link.leaf)} via {to_leaf}",
            f"route replace {prefix6(link.leaf)} via {to_leaf6}",
            f"route replace {loopback6(link.leaf)} via {to_leaf6}",
        ]

    def _leaf_addresses(self, link: FabricLink) -> list[str]:
        return [
            f"addr replace {link.address(of_spine=False)}/30 dev {link.spine_name}",
            f"addr replace {link.address6(of_spine=False)}/64 dev {link.spine_name} nodad",
        ]

    def _leaf_routes(self, leaf: int, verb: str) -> list[str]:
        """One route to each other leaf, with a next hop for every spine."""
        mine = [x for x in self.links if x.leaf == leaf and x.spine + 1 not in self.dead]
        hops = " ".join(f"nexthop via {x.address(of_spine=True)} dev {x.spine_name}" for x in mine)
        hops6 = " ".join(
            f"nexthop via {x.address6(of_spine=True)} dev {x.spine_name}" for x in mine
        )
        routes = []
        for other in range(self.spec.leaves if mine else 0):
            if other != leaf:
                routes.append(f"route {verb} {prefix(other)} {hops}")
                source = f"src {loopback6(leaf)}"
                routes.append(f"route {verb} {prefix6(other)} {source} {hops6}")
        return routes

    def _wire_host(self, host: FabricHost) -> None:
        name, leaf = self.namespace(host.name), self.namespace(leaf_name(host.leaf))
        cgroup.create(self.cgroup_of(host))
        netns.batch(
            "ip", [f"link add {host.name} netns {leaf} type veth peer name eth0 netns {name}"]
        )
        mtu = self.spec.mtu
        netns.batch(
            "ip",
            [
                f"link set {host.name} mtu {mtu} up",
                f"addr add {host.gateway}/30 dev {host.name}",
                f"addr add {host.gateway6}/64 dev {host.name} nodad",
            ],
            leaf,
        )
        # The next phase's connections have the same ports as the last one's.
        sysctls = {**HOST_SYSCTLS, "net/ipv4/tcp_tw_reuse": "1"}
        if self.spec.rto_min_us:
            sysctls["net/ipv4/tcp_rto_min_us"] = str(self.spec.rto_min_us)
        missing = netns.set_sysctls(name, sysctls)
        # Kernels before 6.11 have no such sysctl; a route's attribute does the same there.
        rto = f" rto_min {self.spec.rto_min_us}us" if missing else ""
        bursts = f" gso_max_segs {self.spec.single_packets}" if self.spec.single_packets else ""
        netns.batch(
            "ip",
            [
                f"link set eth0 mtu {mtu}{bursts} up",
                f"addr add {host.address}/30 dev eth0",
                f"addr add {host.address6}/64 dev eth0 nodad",
                f"route add default via {host.gateway}{rto}",
                f"route add default via {host.gateway6}{rto}",
            ],
            name,
        )
        if self.spec.single_packets:
            netns.inside(name, lambda: disable_segmentation("eth0"))
        if self.spec.host_mbit:
            plain = replace(self.spec, queues=Queueing.FIFO)
            for device, where in (("eth0", name), (host.name, leaf)):
                lines = leafspine_queues.commands(device, plain, self.spec.host_mbit)
                netns.batch("tc", lines, where)

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
        ports: dict[str, list[str]] = {switch: [] for switch in self._switches()}
        for link in self.links:
            ports[link.leaf_name].append(link.spine_name)
            ports[link.spine_name].append(link.leaf_name)
        for host in self.hosts:
            ports[leaf_name(host.leaf)].append(host.name)
        for switch, devices in ports.items():
            commands = []
            for device in devices:
                commands.append(f"qdisc add dev {device} clsact")
                commands.append(f"filter add dev {device} ingress bpf da obj {program} sec tc")
            netns.batch("tc", commands, self.namespace(switch))
