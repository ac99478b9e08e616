"""What agents tell each other."""

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
    """`[gossip]`: what agents tell each other.  Addresses are checked in configfile.py."""

    enabled: bool = False
    """Whether this host takes part; if not, nothing listens."""
    name: Annotated[
        str,
        Meta(pattern=f"^$|{MEMBER_NAME}", description=f"{MEMBER_NAME_WORDS}, or nothing"),
    ] = ""
    """Among the members; empty: `instance` if it is set, else the host name."""
    listen: Endpoint = ""
    """Empty: port 7471 of all IPv4 addresses, without keys of loopback only."""
    keys: Annotated[
        str, Meta(pattern=r"^(/[^\x00]{0,4000})?\Z", description="an absolute path or nothing")
    ] = "/etc/hostcc/keys"
    """Directory of `hostcc keys`; empty, or no host.key in it: without keys."""
    insecure: bool = False
    """Without keys, listen where others can reach it: for networks trusted as a whole."""
    seeds: Annotated[tuple[Seed, ...], Meta(max_length=64)] = ()
    """NAME@HOST:PORT of members to begin with; the others are learned."""
    advertise: Endpoint = ""
    """Where the others reach this host; empty: worked out from `listen`."""
