"""Gossip between agents."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from hostcc.config.sections.words import Endpoint
from hostcc.coord.member_name import MEMBER_NAME, MEMBER_NAME_WORDS
from hostcc.limits import VISIBLE

Seed = Annotated[
    str,
    Meta(pattern=rf"^{VISIBLE}{{0,400}}\Z", description="text of at most 400 visible characters"),
]


class GossipConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[gossip]`: gossip between agents. Addresses are checked in load.py."""

    enabled: bool = False
    """Whether this host takes part; if not, it does not listen."""
    name: Annotated[
        str,
        Meta(pattern=f"^$|{MEMBER_NAME}", description=f"{MEMBER_NAME_WORDS}, or nothing"),
    ] = ""
    """Its member name; empty: `instance` if that is set, else the host name."""
    listen: Endpoint = ""
    """Empty: port 7471 of all IPv4 addresses, or of loopback if there are no keys."""
    keys: Annotated[
        str, Meta(pattern=r"^(/[^\x00]{0,4000})?\Z", description="an absolute path or nothing")
    ] = "/etc/hostcc/keys"
    """Directory of `hostcc keys`; empty, or without a host.key: run without keys."""
    insecure: bool = False
    """Without keys, listen on addresses that others can reach: for trusted networks."""
    seeds: Annotated[tuple[Seed, ...], Meta(max_length=64)] = ()
    """NAME@HOST:PORT of members to contact first, or dns:NAME:PORT, a name with the addresses of
    hosts that have certificates; the others are learned."""
    advertise: Endpoint = ""
    """Address at which others reach this host; empty: derived from `listen`."""
