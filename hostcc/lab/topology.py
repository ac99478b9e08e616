"""What every lab network consists of, whatever its shape: pure values.

A network is switches, links between switches, and hosts with one link to their switch each.
hostcc.lab.fabric builds it from namespaces; hostcc.lab.dumbbell and hostcc.lab.leafspine_plan
say which switches, links and addresses there are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, runtime_checkable

BARE_RTT_US = 50
"""Round-trip time that bare namespaces have about, microseconds."""


class Queueing(StrEnum):
    """What waits in front of a link between switches."""

    FIFO = "fifo"
    STRICT = "strict"
    """A queue for each level, the higher first."""
    SHARES = "shares"
    """A queue for each level, each with its share."""


class Ipv6Hash(StrEnum):
    """What the switches choose a path of IPv6 by; of IPv4 it is always addresses and ports."""

    PORTS = "ports"
    LABEL = "label"
    """Addresses and flow label."""


@runtime_checkable
class LabHost(Protocol):
    """A host: one namespace with an interface `eth0`, behind a switch."""

    @property
    def name(self) -> str:
        """What actions and logs call it, and its switch's port to it."""

    @property
    def switch(self) -> str:
        """Name of its switch."""

    @property
    def address(self) -> str:
        """Its IPv4 address."""

    @property
    def gateway(self) -> str:
        """Its switch's IPv4 address."""

    @property
    def prefix_bits(self) -> int:
        """Of the IPv4 network that the two share; of IPv6 it is 64."""

    @property
    def address6(self) -> str:
        """Its IPv6 address."""

    @property
    def gateway6(self) -> str:
        """Its switch's IPv6 address."""


@dataclass(frozen=True)
class Port:
    """One end of a link between switches; its IPv4 network is a /30, that of IPv6 a /64."""

    switch: str
    device: str
    address: str
    address6: str
    queue: str
    """What results call the queue in front of the link, as seen from here."""


Link = tuple[Port, Port]


@dataclass(frozen=True)
class Topology:
    """Switches, links and hosts of a network."""

    switches: tuple[str, ...]
    links: tuple[Link, ...]
    hosts: tuple[LabHost, ...]
    delays_us: Mapping[str, int] = field(default_factory=dict)
    """Switch -> how long what it forwards to its hosts waits; the rest of the base RTT."""


@dataclass(frozen=True, kw_only=True)
class FabricSettings:
    """How links, queues, switches and hosts behave."""

    mtu: int = 1500
    rate_mbit: float = 0.0
    """Of each direction of each link between switches; 0: not shaped."""
    buffer_packets: int = 100
    """Queue in front of a shaped link, full-size packets."""
    queues: Queueing = Queueing.FIFO
    levels: tuple[int, ...] = ()
    """DSCP of each queue, the highest first; what is not marked has one more."""
    ecn_threshold_packets: int = 0
    """Queue length at which packets that allow it are marked CE; 0: no marking."""
    host_mbit: float | tuple[float, ...] = 0.0
    """Of each direction of each host's link, or of one host after the other; 0: not shaped."""
    single_packets: int = 0
    """Segmentation offload is off and a host sends at most so many packets at once; 0: as the
    kernel likes, which is faster but makes queues move in steps of 64 kB."""
    rto_min_us: int = 0
    """Minimum retransmission timeout of hosts; 0: the kernel's."""
    base_rtt_us: int = 0
    """Round-trip time without queueing; up to BARE_RTT_US: what namespaces have by themselves."""
    icmp_interval_ms: int = 10
    """A switch sends errors to one host this far apart, after a burst of six; 0: no limit."""
    ipv6_hash: Ipv6Hash = Ipv6Hash.PORTS
    hash_seed: int = 0
    """Of the switches' ECMP, where the kernel lets it be chosen (Linux 6.11); 0: by chance."""

    @property
    def delay_us(self) -> int:
        """What a round trip has to wait beyond that of bare namespaces."""
        return max(0, self.base_rtt_us - BARE_RTT_US)
