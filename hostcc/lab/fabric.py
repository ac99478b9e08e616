"""Build a lab network from network namespaces: links, queues, delays, offloads, routes.

Every host and switch is a namespace; nothing has a route out of the lab.  A network is
recorded before it is built, and removed whatever happens.
"""

from __future__ import annotations

import subprocess
from abc import ABC, abstractmethod
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from hostcc.lab import cgroup, delay, ecn, netns, shaping, state
from hostcc.lab.errors import LabError
from hostcc.lab.offload import disable_segmentation
from hostcc.lab.topology import FabricSettings, Ipv6Hash, LabHost, Link, Port, Queueing, Topology

HOST_SYSCTLS = {
    "net/ipv4/tcp_no_metrics_save": "1",
    "net/ipv4/tcp_rmem": "4096 1048576 16777216",
    "net/ipv4/tcp_wmem": "4096 262144 16777216",
    # The next phase's connections may have the same ports as the last one's.
    "net/ipv4/tcp_tw_reuse": "1",
}
"""Larger first buffers than the kernel's: fewer wake-ups of senders and receivers."""


class Fabric(ABC):
    """A lab network; a context manager that removes it whatever happens."""

    def __init__(self, spec: FabricSettings, topology: Topology) -> None:
        self.state = state.new_state()
        self.spec = spec
        self.topology = topology
        self.hosts = topology.hosts
        self._delays: list[subprocess.Popen[bytes]] = []

    @abstractmethod
    def routes(self, switch: str) -> list[str]:
        """`ip` commands that tell a switch the ways to hosts behind other switches."""

    def __enter__(self) -> Self:
        try:
            self.state = state.record(self.state, self._parts())
            self._build()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Remove everything; safe to call twice.  Signals wait until it is done."""
        with netns.signals_waiting():
            state.remove(self.state)
        for process in self._delays:
            process.communicate()
        self._delays.clear()

    def namespace(self, part: str) -> str:
        """Name of the namespace of a host or switch."""
        return self.state.namespace(part)

    def namespace_path(self, part: str) -> Path:
        """Path of the same."""
        return netns.NAMESPACE_DIRECTORY / self.namespace(part)

    @property
    def run_dir(self) -> Path:
        """Where logs, sockets and configurations are."""
        return Path(self.state.run_dir)

    def cgroup_of(self, host: LabHost) -> Path:
        """The group that all processes of a host live in."""
        return self.state.host_cgroup(host.name)

    def port_commands(self, port: Port) -> list[str]:
        """`ip` commands that bring a port up with its addresses; they may be repeated."""
        return [
            f"link set {port.device} mtu {self.spec.mtu} up",
            f"addr replace {port.address}/30 dev {port.device}",
            f"addr replace {port.address6}/64 dev {port.device} nodad",
        ]

    def _parts(self) -> list[str]:
        """Switches and hosts, each of which is a namespace."""
        return [*self.topology.switches, *(host.name for host in self.hosts)]

    def _build(self) -> None:
        """Make the parts and connect them; what has been made is removed when it raises."""
        netns.create(self.state.namespaces)
        cgroup.create(Path(self.state.cgroup))
        for switch in self.topology.switches:
            cgroup.create(self.state.host_cgroup(switch))
            netns.set_sysctls(self.namespace(switch), _switch_sysctls(self.spec))
        for link in self.topology.links:
            self._wire_link(link)
        for host in self.hosts:
            self._wire_host(host)
        for switch in self.topology.switches:
            netns.batch("ip", self.routes(switch), self.namespace(switch))
        for switch, delay_us in self.topology.delays_us.items():
            if delay_us:
                self._add_delay(switch, delay_us)

    def _wire_link(self, link: Link) -> None:
        one, other = link
        add = f"link add {one.device} netns {self.namespace(one.switch)} type veth"
        peer = f"peer name {other.device} netns {self.namespace(other.switch)}"
        netns.batch("ip", [f"{add} {peer}"])
        for port in link:
            where = self.namespace(port.switch)
            netns.batch("ip", self.port_commands(port), where)
            if self.spec.rate_mbit:
                lines = shaping.commands(port.device, self.spec, self.spec.rate_mbit)
                netns.batch("tc", lines, where)
            if self.spec.ecn_threshold_packets:
                ecn.attach(where, port.device, self.spec.ecn_threshold_packets)

    def _wire_host(self, host: LabHost) -> None:
        spec, bits = self.spec, host.prefix_bits
        name, switch = self.namespace(host.name), self.namespace(host.switch)
        cgroup.create(self.cgroup_of(host))
        netns.batch(
            "ip", [f"link add {host.name} netns {switch} type veth peer name eth0 netns {name}"]
        )
        netns.batch(
            "ip",
            [
                f"link set {host.name} mtu {spec.mtu} up",
                f"addr add {host.gateway}/{bits} dev {host.name}",
                f"addr add {host.gateway6}/64 dev {host.name} nodad",
            ],
            switch,
        )
        rto = self._set_host_sysctls(name)
        bursts = f" gso_max_segs {spec.single_packets}" if spec.single_packets else ""
        netns.batch(
            "ip",
            [
                f"link set eth0 mtu {spec.mtu}{bursts} up",
                f"addr add {host.address}/{bits} dev eth0",
                f"addr add {host.address6}/64 dev eth0 nodad",
                f"route add default via {host.gateway}{rto}",
                f"route add default via {host.gateway6}{rto}",
            ],
            name,
        )
        if spec.single_packets:
            netns.inside(name, lambda: disable_segmentation("eth0"))
        rates = spec.host_mbit
        rate = rates[self.hosts.index(host)] if isinstance(rates, tuple) else rates
        if rate:
            plain = replace(spec, queues=Queueing.FIFO)
            for device, where in (("eth0", name), (host.name, switch)):
                netns.batch("tc", shaping.commands(device, plain, rate), where)

    def _set_host_sysctls(self, namespace: str) -> str:
        """Set the sysctls of a host; returns what its routes need in place of one it lacks."""
        netns.set_sysctls(namespace, HOST_SYSCTLS)
        if not self.spec.rto_min_us:
            return ""
        timeout = {"net/ipv4/tcp_rto_min_us": str(self.spec.rto_min_us)}
        # Kernels before 6.11 have no such sysctl; a route's attribute does the same there.
        missing = netns.set_sysctls(namespace, timeout)
        return f" rto_min {-(-self.spec.rto_min_us // 1000)}ms" if missing else ""

    def _add_delay(self, switch: str, delay_us: int) -> None:
        """What a switch forwards to its hosts waits: netem where the kernel has it and ports
        have no queue yet, else a delay line for what arrives from other switches."""
        where = self.namespace(switch)
        hosts = [host.name for host in self.hosts if host.switch == switch]
        uplinks = [p.device for link in self.topology.links for p in link if p.switch == switch]
        try:
            if self.spec.host_mbit:
                raise LabError("the port has a queue already")
            netns.batch("tc", delay.netem_commands(hosts, delay_us), where)
        except LabError:
            group, mtu = self.state.host_cgroup(switch), self.spec.mtu
            self._delays.append(delay.start(where, group, uplinks, mtu, delay_us, self.run_dir))


def _switch_sysctls(spec: FabricSettings) -> dict[str, str]:
    interval = str(spec.icmp_interval_ms)
    return {
        "net/ipv4/ip_forward": "1",
        "net/ipv6/conf/all/forwarding": "1",
        "net/ipv4/conf/all/rp_filter": "0",
        "net/ipv4/conf/default/rp_filter": "0",
        "net/ipv4/fib_multipath_hash_policy": "1",
        "net/ipv4/fib_multipath_hash_seed": str(spec.hash_seed),
        # A link that has lost its carrier is no path, as soon as that is known.
        "net/ipv4/conf/all/ignore_routes_with_linkdown": "1",
        "net/ipv6/conf/all/ignore_routes_with_linkdown": "1",
        "net/ipv6/conf/default/ignore_routes_with_linkdown": "1",
        # 0 hashes addresses and flow label, 1 addresses and ports.
        "net/ipv6/fib_multipath_hash_policy": "0" if spec.ipv6_hash is Ipv6Hash.LABEL else "1",
        "net/ipv4/icmp_errors_use_inbound_ifaddr": "1",
        "net/ipv4/icmp_ratelimit": interval,
        "net/ipv6/icmp/ratelimit": interval,
    }
