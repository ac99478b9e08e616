"""Turns of jobs that share a link."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct


class ShiftsConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[shifts]`: jobs that fit beside each other send one after the other."""

    enabled: bool = True
    """Whether the first packets or posts of a job's burst wait while a job of its group sends."""
    max_share: Annotated[float, Meta(gt=0, le=0.5)] = 0.05
    """Fraction of any minute that a job is held at most."""
