"""Paths of jobs' flows."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from hostcc.config.sections.words import Glob

Device = Annotated[
    str, Meta(pattern=r"^[^\s/]{1,15}\Z", description="a device's name of 1 to 15 characters")
]
IpAddress = Annotated[
    str, Meta(pattern=r"^[0-9a-f.:]{2,45}\Z", description="an IP address, as the kernel writes it")
]
File = Annotated[
    str, Meta(pattern=r"^(/[^\x00]{0,4000})?\Z", description="an absolute path or nothing")
]
Mbit = Annotated[float, Meta(ge=0, le=8_000_000)]


class LinkConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[[paths.link]]`: capacity of links that this host cannot query."""

    link: Glob
    """Glob over names of links (docs/internals/paths.md); the first matching entry applies."""
    mbit_per_s: Mbit
    """0: the link must not be used."""


class PathsConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[paths]`: discovery of paths, and moving flows between them."""

    enabled: bool = False
    """Whether paths are discovered and published; needs [gossip]."""
    steer: bool = True
    """Whether established connections are moved to the planned paths."""
    connect: bool = True
    """Whether new connections start with a source port of the planned path."""
    ipv6: Literal["port", "label"] = "port"
    """What switches hash for IPv6, and so what is changed to move a flow: port or flow label."""
    shares: Literal["off", "window", "pace"] = "off"
    """Whether and how a job's connections are limited to their share of the planned paths."""
    source: Literal["probe", "static", "hash", "telemetry"] = "probe"
    """How paths are discovered (docs/internals/paths.md)."""
    file: File = ""
    """For static, hash and telemetry: the table, the switches' hash functions, the records."""
    socket: Annotated[
        str, Meta(pattern=r"^(/[^\x00]{0,106})?\Z", description="an absolute path or nothing")
    ] = ""
    """For telemetry: socket for records, in addition to `file`. At most 107 bytes."""
    socket_group: Annotated[
        str, Meta(pattern=r"^[A-Za-z0-9._-]{0,32}\Z", description="a group's name or nothing")
    ] = ""
    """Members may send records, as may root. Empty: only root."""
    names: Literal["interface", "router"] = "interface"
    """Source address of a router's answers: the probed interface, or one for the whole router."""
    elephant_bytes: Annotated[float, Meta(ge=1, le=1e15)] = 1_000_000.0
    """Bytes per iteration from which a connection gets a path of its own."""
    devices: Annotated[tuple[Device, ...], Meta(max_length=32)] = ()
    """Devices of jobs' traffic; empty: every Ethernet device with an address, no bridges."""
    addresses: Annotated[tuple[IpAddress, ...], Meta(max_length=32)] = ()
    """Addresses that receive jobs' traffic; empty: those of `devices`."""
    first_port: Annotated[int, Meta(ge=1024, le=65535)] = 61_000
    """First of the source ports that are reserved for steering ..."""
    last_port: Annotated[int, Meta(ge=1024, le=65535)] = 65_535
    """... and the last (net.ipv4.ip_local_reserved_ports)."""
    probe_per_s: Annotated[float, Meta(ge=1, le=10_000)] = 50.0
    """Probes per second to one hop; halved when answers are missing."""
    spot_s: Annotated[float, Meta(ge=0.5, le=3600)] = 10.0
    """Seconds between probes of one port on every path."""
    full_s: Annotated[float, Meta(ge=5, le=86_400)] = 600.0
    """Seconds between probes of all ports, if nothing changes, and between reads of files."""
    fabric_mbit_per_s: Mbit = 0.0
    """Capacity of links beyond this host's own; 0: the same as its own."""
    link: Annotated[tuple[LinkConfig, ...], Meta(max_length=256)] = ()
    rtt_factor: Annotated[float, Meta(gt=1, le=1000)] = 4.0
    """A moved flow returns if its RTT is this many times the RTT before the move, and ..."""
    rtt_floor_ms: Annotated[float, Meta(ge=0, le=10_000)] = 20.0
    """... at least this much longer (queues that it fills itself do not count), or ..."""
    loss_share: Annotated[float, Meta(gt=0, le=1)] = 0.02
    """... if more than this share of its segments are retransmitted ..."""
    bad_s: Annotated[float, Meta(ge=0, le=60)] = 1.0
    """... for this many seconds."""
    again_s: Annotated[float, Meta(ge=0, le=3600)] = 30.0
    """Seconds for which it is then not moved again."""
    plan_age_s: Annotated[float, Meta(ge=1, le=3600)] = 30.0
    """Seconds after which a flow returns if no valid plan has named its path."""
    stale_s: Annotated[float, Meta(ge=0.5, le=60)] = 3.0
    """Seconds without a heartbeat of the agent after which packets are not rewritten."""
    peer_silent_s: Annotated[float, Meta(ge=1, le=600)] = 5.0
    """Seconds of silence after which a suspect peer counts as gone."""
