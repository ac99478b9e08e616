"""What scenarios run on, whatever its shape: hosts of jobs, counters, observers."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from hostcc.lab import netns
from hostcc.lab.allowed import allowing
from hostcc.lab.built import BuiltNetwork
from hostcc.lab.plan import Wire
from hostcc.lab.scenario import BackgroundSpec, JobSpec
from hostcc.lab.segments import Segment
from hostcc.lab.shaping import QueueCounters


@runtime_checkable
class LabHost(Protocol):
    """A host: one namespace with an interface `eth0`."""

    @property
    def name(self) -> str:
        """What actions and logs call it."""

    @property
    def address(self) -> str:
        """Its IPv4 address."""


class Network(BuiltNetwork):
    """A lab network that jobs run on."""

    secured = False
    """Whether agents gossip with keys of their own; without, they trust the network."""
    fixed_ports = False
    """Whether connections have the same source ports in every run with the same seed."""

    @property
    def run_dir(self) -> Path:
        """Where logs, sockets and configurations are."""
        return Path(self.state.run_dir)

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

    @abstractmethod
    def counters(self) -> dict[str, QueueCounters]:
        """Counters of the queues that jobs meet at, by name."""

    @abstractmethod
    def sampled(self) -> tuple[str, ...]:
        """Switches whose ports to hosts are worth recording over time; the recorder runs
        beside the last."""

    def marked(self) -> int:
        """Packets that arrived with CE so far."""
        return 0

    def restore(self) -> None:
        """Undo what events did to the network, before the next phase."""

    def segments(self) -> tuple[Segment, ...]:
        """Which flow has gone which way since `forget`, where the network can tell."""
        return ()

    def resets(self) -> int:
        """Resets of jobs' connections so far, where the network can tell."""
        return 0

    def forget(self) -> None:
        """Begin anew with what is seen of flows."""

    def agent_settings(self) -> dict[str, Any]:
        """What agents have to be told of this network; a variant's configuration goes over it."""
        return {}

    def gossip_address(self, host: LabHost) -> str:
        """Where a host's agent listens for the others."""
        return host.address

    def cgroup_of(self, host: LabHost) -> Path:
        """The group that all processes of a host live in."""
        return self.state.host_cgroup(host.name)

    def set_congestion_control(self, name: str) -> None:
        """Set the default congestion control of every host that may run jobs."""
        with allowing(name):
            for host in self.job_hosts():
                netns.set_sysctls(
                    self.namespace(host.name), {"net/ipv4/tcp_congestion_control": name}
                )
