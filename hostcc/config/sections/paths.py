"""Which paths jobs' flows take."""

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
    """`[[paths.link]]`: how much links carry that this host cannot ask."""

    link: Glob
    """Glob over names of links (docs/paths.md); the first entry that fits counts."""
    mbit_per_s: Mbit
    """0: nothing may be put on it."""


class PathsConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[paths]`: finding out which paths there are, and moving flows between them."""

    enabled: bool = False
    """Whether paths are looked for and told the others; needs [gossip]."""
    steer: bool = True
    """Whether live connections are moved to the paths of the plan."""
    connect: bool = True
    """Whether new connections begin with a source port of the path that is planned."""
    ipv6: Literal["port", "label"] = "port"
    """What switches hash of IPv6, and so what flows are moved by: source port or flow label."""
    shares: Literal["off", "window", "pace"] = "off"
    """Whether a job's connections are held to their share of the planned paths, and how."""
    source: Literal["probe", "static", "hash", "telemetry"] = "probe"
    """Where paths come from (docs/paths.md)."""
    file: File = ""
    """For static, hash and telemetry: the table, the switches' functions, the records."""
    socket: Annotated[
        str, Meta(pattern=r"^(/[^\x00]{0,106})?\Z", description="an absolute path or nothing")
    ] = ""
    """For telemetry: where records arrive, beside those of `file`.  At most 107 bytes."""
    socket_group: Annotated[
        str, Meta(pattern=r"^[A-Za-z0-9._-]{0,32}\Z", description="a group's name or nothing")
    ] = ""
    """Members may send records, and root.  Empty: only root."""
    names: Literal["interface", "router"] = "interface"
    """What a router's answers come from: the interface that was probed, or one address of it."""
    elephant_bytes: Annotated[float, Meta(ge=1, le=1e15)] = 1_000_000.0
    """Bytes per iteration from which on a connection is worth a path of its own."""
    devices: Annotated[tuple[Device, ...], Meta(max_length=32)] = ()
    """Where jobs' traffic leaves; empty: every Ethernet device with an address, no bridges."""
    addresses: Annotated[tuple[IpAddress, ...], Meta(max_length=32)] = ()
    """Where the others send jobs' traffic to; empty: the addresses of `devices`."""
    first_port: Annotated[int, Meta(ge=1024, le=65535)] = 61_000
    """Source ports that only steering uses, from ..."""
    last_port: Annotated[int, Meta(ge=1024, le=65535)] = 65_535
    """... to; they are reserved (net.ipv4.ip_local_reserved_ports)."""
    probe_per_s: Annotated[float, Meta(ge=1, le=10_000)] = 50.0
    """Probes a second that end at one hop; halved when answers fail to come."""
    spot_s: Annotated[float, Meta(ge=0.5, le=3600)] = 10.0
    """How often one port of every path is asked again, seconds."""
    full_s: Annotated[float, Meta(ge=5, le=86_400)] = 600.0
    """How often everything is, without any change; and how often files are read again."""
    fabric_mbit_per_s: Mbit = 0.0
    """What links beyond this host's own carry; 0: as much as its own."""
    link: Annotated[tuple[LinkConfig, ...], Meta(max_length=256)] = ()
    rtt_factor: Annotated[float, Meta(gt=1, le=1000)] = 4.0
    """A moved flow goes back when its RTT is so many times what it was before, and ..."""
    rtt_floor_ms: Annotated[float, Meta(ge=0, le=10_000)] = 20.0
    """... at least so much more (queues that it fills by itself do not count), or ..."""
    loss_share: Annotated[float, Meta(gt=0, le=1)] = 0.02
    """... when more than this part of its segments are sent again ..."""
    bad_s: Annotated[float, Meta(ge=0, le=60)] = 1.0
    """... for so many seconds."""
    again_s: Annotated[float, Meta(ge=0, le=3600)] = 30.0
    """It is not moved again for so long."""
    plan_age_s: Annotated[float, Meta(ge=1, le=3600)] = 30.0
    """A flow goes back when no valid plan has named its path for so long."""
    stale_s: Annotated[float, Meta(ge=0.5, le=60)] = 3.0
    """Without a sign of life of the agent for so long, nothing leaves rewritten."""
    peer_silent_s: Annotated[float, Meta(ge=1, le=600)] = 5.0
    """A peer that is suspect and has been silent for so long counts as gone."""
