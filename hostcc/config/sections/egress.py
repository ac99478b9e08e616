"""Egress queues of this host."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

Device = Annotated[
    str, Meta(pattern=r"^[A-Za-z0-9._-]{1,15}\Z", description="a network device's name")
]


class EgressConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[egress]`: queues by level on this host's devices, where its own jobs meet first."""

    queues: Literal["off", "htb", "prio", "ets"] = "off"
    """htb: a level may use what higher ones leave; prio, ets: strict priority."""
    devices: Annotated[tuple[Device, ...], Meta(max_length=64)] = ()
    """Devices of the agent's network namespace; each must have the kernel's default queue."""
    rate_mbit: Annotated[float, Meta(ge=0, le=10_000_000)] = 0.0
    """Rate of a device for htb; 0: as the device reports it."""
