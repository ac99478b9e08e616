"""Turns at PCIe links that jobs share."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from hostcc.config.sections.words import SocketPath

Granule = Annotated[int, Meta(ge=1, le=1 << 40)]


class PcieConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[pcie]`: turns at PCIe links that jobs of `hostcc run --rdma` share (docs/pcie.md)."""

    enabled: bool = True
    """Whether there are semaphores for such links."""
    semaphores: SocketPath = "/dev/shm/hostcc-pcie"
    """Socket at which the shared memory that they are in is handed out."""
    group: Annotated[
        str, Meta(pattern=r"^[A-Za-z0-9._-]{0,32}\Z", description="a group's name or nothing")
    ] = ""
    """Whose members' jobs may use them; empty: those of root only."""
    topology: Annotated[
        str, Meta(pattern=r"^(/[^\x00]{0,4000})?\Z", description="an absolute path or nothing")
    ] = ""
    """An NCCL topology file or hwloc export; empty: sysfs."""
    linger_us: Annotated[int, Meta(ge=0, le=100_000)] = 100
    """A level counts as using a link for so long after each message."""
    aging_ms: Annotated[float, Meta(ge=0, le=10_000)] = 20.0
    """A waiter rises by one level for every so much waiting; 0: never."""
    patience_ms: Annotated[float, Meta(ge=1, le=10_000)] = 1000.0
    """Nobody waits longer for one message."""
    lease_ms: Annotated[float, Meta(ge=1, le=10_000)] = 100.0
    """Who shows no sign of life for so long loses the link."""
    granule: Granule = 1 << 20
    """Bytes after which a holder makes way for its own level."""
