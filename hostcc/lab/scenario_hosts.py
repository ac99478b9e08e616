"""Pure: from a scenario to named hosts, addresses and bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from hostcc.lab.scenario import FabricSpec, JobSpec, Scenario

ETHERNET_BYTES = 14
TCP_OVERHEAD_BYTES = 52
"""IPv4 header, TCP header, time stamps."""
LEFT, RIGHT = "left", "right"
"""Names of a dumbbell's switches."""


class Wire(Protocol):
    """What a job's bytes and times follow from."""

    @property
    def rate_mbit(self) -> float:
        """Of the narrowest link of a path."""

    @property
    def mtu(self) -> int:
        """Largest packet."""


@dataclass(frozen=True)
class Host:
    """One lab host: a network namespace behind one of the two switches."""

    index: int
    """1-based, over the whole lab."""
    owner: str
    """Job or background that it belongs to."""
    rank: int
    left: bool
    background: bool = False

    @property
    def name(self) -> str:
        """What actions and logs call it."""
        return f"h{self.index}"

    @property
    def switch(self) -> str:
        """Name of its switch."""
        return LEFT if self.left else RIGHT

    @property
    def address(self) -> str:
        """Its IPv4 address."""
        return f"198.18.{self.index}.2"

    @property
    def gateway(self) -> str:
        """Its switch's IPv4 address."""
        return f"198.18.{self.index}.1"

    @property
    def prefix_bits(self) -> int:
        """Of the IPv4 network that it shares with its switch."""
        return 24

    @property
    def address6(self) -> str:
        """Its IPv6 address."""
        return f"fd00:4843:{self.index:x}::2"

    @property
    def gateway6(self) -> str:
        """Its switch's IPv6 address."""
        return f"fd00:4843:{self.index:x}::1"


def hosts_of(scenario: Scenario) -> tuple[Host, ...]:
    """Every host of a scenario; even ranks left, odd ranks right, so a ring always crosses."""
    hosts: list[Host] = []
    for job in scenario.job:
        for rank in range(job.hosts):
            hosts.append(Host(len(hosts) + 1, job.name, rank, rank % 2 == 0))
    for number, background in enumerate(scenario.background):
        for rank in range(2):
            owner = f"{background.name}.{number}"
            hosts.append(Host(len(hosts) + 1, owner, rank, rank == 0, background=True))
    return tuple(hosts)


def packet_bytes(fabric: Wire) -> int:
    """A full packet as the bottleneck counts it."""
    return fabric.mtu + ETHERNET_BYTES


def goodput_fraction(fabric: Wire) -> float:
    """Payload's part of the wire rate with full packets."""
    return (fabric.mtu - TCP_OVERHEAD_BYTES) / packet_bytes(fabric)


def bytes_per_iteration(job: JobSpec, fabric: Wire) -> int:
    """Bytes that each sending host of the job sends in one iteration."""
    if job.bytes:
        return job.bytes
    return round(job.comm_ms / 1e3 * fabric.rate_mbit * 1e6 / 8 * goodput_fraction(fabric))


def ideal_seconds(job: JobSpec, fabric: FabricSpec) -> float:
    """Iteration time with the bottleneck to itself and no protocol losses.

    A ring's hosts share the one bottleneck of a dumbbell; of a leaf-spine fabric each is taken
    to have a path of its own.  For commands it is what the scenario says of them, and 0 when
    that is nothing.
    """
    rate = fabric.rate_mbit * 1e6 / 8 * goodput_fraction(fabric)
    shared = job.pattern == "allreduce" and fabric.kind == "dumbbell"
    senders = job.hosts // 2 if shared else 1
    return job.compute_ms / 1e3 + senders * bytes_per_iteration(job, fabric) / rate
