"""Turns at PCIe links that jobs share."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from hostcc.config.sections.words import SocketPath

Granule = Annotated[int, Meta(ge=1, le=1 << 40)]


class PcieConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[pcie]`: turns at PCIe links shared by jobs of `hostcc run --rdma`
    (docs/internals/pcie.md)."""

    enabled: bool = True
    """Whether such links get semaphores."""
    semaphores: SocketPath = "/dev/shm/hostcc-pcie"
    """Socket that hands out the shared memory of the semaphores."""
    group: Annotated[
        str, Meta(pattern=r"^[A-Za-z0-9._-]{0,32}\Z", description="a group's name or nothing")
    ] = ""
    """Group whose members' jobs may use them; empty: root's only."""
    topology: Annotated[
        str, Meta(pattern=r"^(/[^\x00]{0,4000})?\Z", description="an absolute path or nothing")
    ] = ""
    """An NCCL topology file or hwloc export; empty: sysfs."""
    linger_us: Annotated[int, Meta(ge=0, le=100_000)] = 100
    """Time after each message for which a level counts as using a link."""
    aging_ms: Annotated[float, Meta(ge=0, le=10_000)] = 20.0
    """Waiting time after which a waiter rises by one level; 0: never."""
    patience_ms: Annotated[float, Meta(ge=1, le=10_000)] = 1000.0
    """Longest wait for one message."""
    lease_ms: Annotated[float, Meta(ge=1, le=10_000)] = 100.0
    """Time without a sign of life after which a holder loses the link."""
    granule: Granule = 1 << 20
    """Bytes after which a holder lets others of its level go first."""
