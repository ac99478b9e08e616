"""DSCP marks of jobs' packets, by the level that a plan gives a job."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

Dscp = Annotated[int, Meta(ge=0, le=63)]


class MarkingConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[marking]`: DSCP of jobs' sockets while a plan is in force."""

    enabled: bool = False
    """Off by default: only the network's operator knows what a DSCP does there."""
    dscp: Annotated[tuple[Dscp, ...], Meta(min_length=1, max_length=16)] = (
        56, 48, 40, 32, 24, 16, 8, 0,
    )  # fmt: skip
    """By level, as many as plan.levels; those of reserved levels are not used."""
    override: bool = False
    """Also mark sockets that their application has marked itself."""
