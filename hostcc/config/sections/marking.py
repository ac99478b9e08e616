"""Marks of jobs' packets, by the level that a plan gives a job."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

Dscp = Annotated[int, Meta(ge=0, le=63)]


class MarkingConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[marking]`: DSCP of jobs' sockets, while a plan holds."""

    enabled: bool = False
    """Off: what a DSCP does is up to the network, and only its operator knows."""
    dscp: Annotated[tuple[Dscp, ...], Meta(min_length=1, max_length=16)] = (
        56, 48, 40, 32, 24, 16, 8, 0,
    )  # fmt: skip
    """By level, as many as plan.levels; those of reserved levels are given to no job."""
    override: bool = False
    """Also mark sockets that their application has marked itself."""
