"""What scenarios run on, whatever its shape: hosts of jobs, counters, observers."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from hostcc.lab import ecn, netns, shaping
from hostcc.lab.allowed import allowing
from hostcc.lab.fabric import Fabric
from hostcc.lab.scenario import BackgroundSpec, FabricSpec, JobSpec
from hostcc.lab.scenario_hosts import Wire
from hostcc.lab.segments import Segment
from hostcc.lab.topology import LabHost


def settings_of(fabric: FabricSpec) -> dict[str, Any]:
    """Fields of FabricSettings that every `[fabric]` has."""
    return {
        "mtu": fabric.mtu,
        "rate_mbit": fabric.rate_mbit,
        "buffer_packets": fabric.buffer_packets,
        "ecn_threshold_packets": fabric.ecn_threshold_packets,
        "single_packets": fabric.gso_max_segs,
        "rto_min_us": fabric.rto_min_us,
        "base_rtt_us": fabric.base_rtt_us,
    }


class Network(Fabric):
    """A lab network that jobs run on."""

    secured = False
    """Whether agents gossip with keys of their own; without, they trust the network."""
    fixed_ports = False
    """Whether connections have the same source ports in every run with the same seed."""

    @property
    @abstractmethod
    def wire(self) -> Wire:
        """Rate and packet size."""

    @abstractmethod
    def members(self, job: JobSpec) -> tuple[LabHost, ...]:
        """Hosts of a job, by rank."""

    @abstractmethod
    def pair(self, number: int, background: BackgroundSpec) -> tuple[LabHost, LabHost]:
        """Sender and receiver of background traffic."""

    @abstractmethod
    def job_hosts(self) -> tuple[LabHost, ...]:
        """All hosts that may run jobs."""

    def counters(self) -> dict[str, shaping.QueueCounters]:
        """Counters of the queues between switches, by name."""
        return {
            port.queue: shaping.read_counters(self.namespace(port.switch), port.device)
            for link in self.topology.links
            for port in link
        }

    def sampled(self) -> tuple[str, ...]:
        """Switches with hosts, whose ports to them are worth recording over time; the recorder
        runs beside the last."""
        behind = {host.switch for host in self.hosts}
        return tuple(switch for switch in self.topology.switches if switch in behind)

    def marked(self) -> int:
        """Packets that arrived with CE so far."""
        if not self.spec.ecn_threshold_packets:
            return 0
        return sum(ecn.marked_packets(self.namespace(host.name)) for host in self.hosts)

    def restore(self) -> None:
        """Undo what events did to the network, before the next phase."""

    def segments(self) -> tuple[Segment, ...]:
        """Which paths each flow has taken since `forget`, where the network can tell."""
        return ()

    def resets(self) -> int:
        """Resets of jobs' connections so far, where the network can tell."""
        return 0

    def forget(self) -> None:
        """Forget the paths of flows seen so far."""

    def agent_settings(self) -> dict[str, Any]:
        """Configuration of every agent on this network; a variant's goes over it."""
        return {}

    def gossip_address(self, host: LabHost) -> str:
        """Where a host's agent listens for the others."""
        return host.address

    def set_congestion_control(self, name: str) -> None:
        """Set the default congestion control of every host that may run jobs."""
        with allowing(name):
            for host in self.job_hosts():
                netns.set_sysctls(
                    self.namespace(host.name), {"net/ipv4/tcp_congestion_control": name}
                )
