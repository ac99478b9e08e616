"""A dumbbell of network namespaces: hosts, two switches, one shaped link between them.

    h1 --.                       .-- h2
    h3 ---- left ==mid== right ----- h4
    h5 --'   HTB + FIFO each way '-- h6

Every host is one namespace with one interface, `eth0`; a switch's port to host hN is called
hN.  IPv4 in 198.18.0.0/15 (the benchmarking range) and IPv6 in fd00:4843::/32; nothing has a
route out of the lab.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from hostcc.lab import cgroup, delay, ecn, netns, shaping
from hostcc.lab.built import HOST_SYSCTLS
from hostcc.lab.errors import LabError
from hostcc.lab.network import Network
from hostcc.lab.offload import disable_segmentation
from hostcc.lab.plan import MAX_SOCKET_RTT_US, Host
from hostcc.lab.scenario import BackgroundSpec, FabricSpec, JobSpec

MID_LEFT, MID_RIGHT = "198.19.255.1", "198.19.255.2"
MID_LEFT6, MID_RIGHT6 = "fd00:4843:ffff::1", "fd00:4843:ffff::2"
LEFT, RIGHT, MID = "left", "right", "mid"

SWITCH_SYSCTLS = {
    "net/ipv4/ip_forward": "1",
    "net/ipv6/conf/all/forwarding": "1",
    "net/ipv4/conf/all/rp_filter": "0",
    "net/ipv4/conf/default/rp_filter": "0",
}


class Fabric(Network):
    """The built lab network; a context manager that removes it whatever happens."""

    def __init__(self, spec: FabricSpec, hosts: tuple[Host, ...]) -> None:
        super().__init__()
        self.spec = spec
        self.hosts = hosts
        self.delay_line: subprocess.Popen[bytes] | None = None

    def close(self) -> None:
        """Remove everything; safe to call twice.  Signals wait until it is done."""
        super().close()
        if self.delay_line is not None:
            self.delay_line.communicate()
            self.delay_line = None

    def _parts(self) -> list[str]:
        return [LEFT, RIGHT, *(host.name for host in self.hosts)]

    @property
    def wire(self) -> FabricSpec:
        """The bottleneck."""
        return self.spec

    def members(self, job: JobSpec) -> tuple[Host, ...]:
        """Hosts of a job, by rank."""
        return tuple(host for host in self.job_hosts() if host.owner == job.name)

    def pair(self, number: int, background: BackgroundSpec) -> tuple[Host, Host]:
        """Background traffic has hosts of its own."""
        owner = f"{background.name}.{number}"
        left, right = (host for host in self.hosts if host.background and host.owner == owner)
        return left, right

    def job_hosts(self) -> tuple[Host, ...]:
        """All hosts but those of background traffic, which keep their congestion control."""
        return tuple(host for host in self.hosts if not host.background)

    def sampled(self) -> tuple[str, ...]:
        """Both switches."""
        return LEFT, RIGHT

    def marked(self) -> int:
        """Packets that arrived with CE so far."""
        if not self.spec.ecn_threshold_packets:
            return 0
        return sum(ecn.marked_packets(self.namespace(host.name)) for host in self.hosts)

    def counters(self) -> dict[str, shaping.QueueCounters]:
        """Counters of the bottleneck queues by direction (`right`: left to right)."""
        return {
            "right": shaping.read_counters(self.namespace(LEFT), MID),
            "left": shaping.read_counters(self.namespace(RIGHT), MID),
        }

    def _build(self) -> None:
        netns.create(self.state.namespaces)
        cgroup.create(Path(self.state.cgroup))
        for switch in (LEFT, RIGHT):
            cgroup.create(self.state.host_cgroup(switch))
            netns.set_sysctls(self.namespace(switch), SWITCH_SYSCTLS)
        self._wire_middle()
        for host in self.hosts:
            self._wire_host(host)
        for switch in (LEFT, RIGHT):
            netns.batch("tc", shaping.bottleneck_commands(MID, self.spec), self.namespace(switch))
            if self.spec.ecn_threshold_packets:
                ecn.attach(self.namespace(switch), MID, self.spec.ecn_threshold_packets)
        if self.spec.base_rtt_us > MAX_SOCKET_RTT_US:
            self._add_delay()

    def _wire_middle(self) -> None:
        left, right = self.namespace(LEFT), self.namespace(RIGHT)
        netns.batch(
            "ip",
            [
                f"link add {MID} netns {left} type veth peer name {MID} netns {right}",
            ],
        )
        for name, own, own6, peer, peer6 in (
            (left, MID_LEFT, MID_LEFT6, MID_RIGHT, MID_RIGHT6),
            (right, MID_RIGHT, MID_RIGHT6, MID_LEFT, MID_LEFT6),
        ):
            netns.batch(
                "ip",
                [
                    f"link set {MID} mtu {self.spec.mtu} txqueuelen 1000 up",
                    f"addr add {own}/30 dev {MID}",
                    f"addr add {own6}/64 dev {MID} nodad",
                    f"route add default via {peer}",
                    f"route add default via {peer6}",
                ],
                name,
            )

    def _wire_host(self, host: Host) -> None:
        name = self.namespace(host.name)
        switch = self.namespace(LEFT if host.left else RIGHT)
        cgroup.create(self.cgroup_of(host))
        netns.batch(
            "ip",
            [
                f"link add {host.name} netns {switch} type veth peer name eth0 netns {name}",
            ],
        )
        netns.batch(
            "ip",
            [
                f"link set {host.name} mtu {self.spec.mtu} up",
                f"addr add {host.gateway}/24 dev {host.name}",
                f"addr add {host.gateway6}/64 dev {host.name} nodad",
            ],
            switch,
        )
        missing = netns.set_sysctls(
            name,
            {
                **HOST_SYSCTLS,
                "net/ipv4/tcp_rto_min_us": str(self.spec.rto_min_us),
            },
        )
        # Kernels before 6.11 have no such sysctl; a route's attribute does the same there.
        rto = f" rto_min {self.spec.rto_min_us}us" if missing else ""
        netns.batch(
            "ip",
            [
                f"link set eth0 mtu {self.spec.mtu} gso_max_segs {self.spec.gso_max_segs} up",
                f"addr add {host.address}/24 dev eth0",
                f"addr add {host.address6}/64 dev eth0 nodad",
                f"route add default via {host.gateway}{rto}",
                f"route add default via {host.gateway6}{rto}",
            ],
            name,
        )
        netns.inside(name, lambda: disable_segmentation("eth0"))

    def _add_delay(self) -> None:
        extra_us = self.spec.base_rtt_us - MAX_SOCKET_RTT_US
        left = self.namespace(LEFT)
        ports = [host.name for host in self.hosts if host.left]
        try:
            netns.batch("tc", delay.netem_commands(ports, extra_us), left)
        except LabError:
            self.delay_line = delay.start(
                left, self.state.host_cgroup(LEFT), [MID], self.spec.mtu, extra_us, self.run_dir
            )
