"""A leaf-spine fabric of network namespaces, whose switches choose paths by ECMP.

The kernel's own router does that, by a hash of addresses and ports; plan and addresses are
in leafspine_plan.  Nothing has a route out of the lab.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hostcc.lab import cgroup, netns
from hostcc.lab import compile as compiler
from hostcc.lab.built import HOST_SYSCTLS, Built
from hostcc.lab.leafspine_plan import (
    FabricHost,
    FabricLink,
    Ipv6Hash,
    LeafSpineSpec,
    hosts_of,
    leaf_name,
    links_of,
    loopback6,
    prefix,
    prefix6,
)


class LeafSpine(Built):
    """The built fabric; a context manager that removes it whatever happens."""

    def __init__(self, spec: LeafSpineSpec) -> None:
        super().__init__()
        self.spec = spec
        self.hosts = hosts_of(spec)
        self.links = links_of(spec)

    def _parts(self) -> list[str]:
        return [*self._switches(), *(host.name for host in self.hosts)]

    def namespace_path(self, part: str) -> Path:
        """Path of the same."""
        return netns.NAMESPACE_DIRECTORY / self.namespace(part)

    def cgroup_of(self, host: FabricHost) -> Path:
        """The group that all processes of a host live in."""
        return self.state.host_cgroup(host.name)

    def host(self, number: int) -> FabricHost:
        """A host by its number from 1."""
        return self.hosts[number - 1]

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

    def _switches(self) -> list[str]:
        spines = [FabricLink(0, spine).spine_name for spine in range(self.spec.spines)]
        return [*(leaf_name(leaf) for leaf in range(self.spec.leaves)), *spines]

    def _build(self) -> None:
        netns.create(self.state.namespaces)
        cgroup.create(Path(self.state.cgroup))
        for switch in self._switches():
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

    def _switch_sysctls(self) -> dict[str, str]:
        interval = str(self.spec.icmp_interval_ms)
        label = self.spec.ipv6_hash is Ipv6Hash.LABEL
        return {
            "net/ipv4/ip_forward": "1",
            "net/ipv6/conf/all/forwarding": "1",
            "net/ipv4/conf/all/rp_filter": "0",
            "net/ipv4/conf/default/rp_filter": "0",
            "net/ipv4/fib_multipath_hash_policy": "1",
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
        to_leaf, to_leaf6 = link.address(of_spine=False), link.address6(of_spine=False)
        netns.batch(
            "ip",
            [
                f"link set {link.leaf_name} mtu {mtu} up",
                f"addr add {link.address(of_spine=True)}/30 dev {link.leaf_name}",
                f"addr add {link.address6(of_spine=True)}/64 dev {link.leaf_name} nodad",
                f"route add {prefix(link.leaf)} via {to_leaf}",
                f"route add {prefix6(link.leaf)} via {to_leaf6}",
                f"route add {loopback6(link.leaf)} via {to_leaf6}",
            ],
            spine,
        )
        if self.spec.rate_mbit:
            for device, where in ((link.spine_name, leaf), (link.leaf_name, spine)):
                netns.batch("tc", self._shaping(device), where)

    def _leaf_addresses(self, link: FabricLink) -> list[str]:
        return [
            f"addr replace {link.address(of_spine=False)}/30 dev {link.spine_name}",
            f"addr replace {link.address6(of_spine=False)}/64 dev {link.spine_name} nodad",
        ]

    def _leaf_routes(self, leaf: int, verb: str) -> list[str]:
        """One route to each other leaf, with a next hop for every spine."""
        mine = [link for link in self.links if link.leaf == leaf]
        hops = " ".join(f"nexthop via {x.address(of_spine=True)} dev {x.spine_name}" for x in mine)
        hops6 = " ".join(
            f"nexthop via {x.address6(of_spine=True)} dev {x.spine_name}" for x in mine
        )
        routes = []
        for other in range(self.spec.leaves):
            if other != leaf:
                routes.append(f"route {verb} {prefix(other)} {hops}")
                source = f"src {loopback6(leaf)}"
                routes.append(f"route {verb} {prefix6(other)} {source} {hops6}")
        return routes

    def _shaping(self, device: str) -> list[str]:
        rate, limit = self.spec.rate_mbit, self.spec.buffer_packets * (self.spec.mtu + 14)
        burst = max(2 * (self.spec.mtu + 14), int(rate * 1e6 / 8 / 1000))
        return [f"qdisc add dev {device} root tbf rate {rate}mbit burst {burst} limit {limit}"]

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
        netns.set_sysctls(name, HOST_SYSCTLS)
        netns.batch(
            "ip",
            [
                f"link set eth0 mtu {mtu} up",
                f"addr add {host.address}/30 dev eth0",
                f"addr add {host.address6}/64 dev eth0 nodad",
                f"route add default via {host.gateway}",
                f"route add default via {host.gateway6}",
            ],
            name,
        )

    def _forget_hashes(self) -> None:
        program = compiler.compiled(
            "leafspine_hash.bpf.c",
            ("clang",),
            ("-target", "bpf", "-O2", "-g", "-I/usr/include/x86_64-linux-gnu",
             "-I/usr/include/aarch64-linux-gnu", "-c"),
        )  # fmt: skip
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
