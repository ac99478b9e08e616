"""Measurements of jobs."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct


class MeasureConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[measure]`: measurements of each job's traffic."""

    enabled: bool = True
    """Whether jobs' bytes are counted and their iterations analysed."""
    jobs_max: Annotated[int, Meta(ge=1, le=256)] = 32
    """Jobs that are profiled at a time; each takes up to 0.5 MB of memory."""
    profiling_max_s: Annotated[float, Meta(ge=0, le=600)] = 30.0
    """Longest profiling turn of a new job beside others on this host, seconds; 0: none."""


class GpuConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[gpu]`: work on NVIDIA GPUs."""

    enabled: bool = True
    """false also closes the driver, so that it can be unloaded or MIG mode changed."""
    interval_s: Annotated[float, Meta(ge=0.1, le=10)] = 0.1
    """Seconds between readings of the GPUs."""
    assumed_flops: Annotated[float, Meta(ge=0, le=1e16)] = 0.0
    """FLOP/s that a job is assumed to reach on each of its GPUs while it computes, where its work
    is not measured; 0: by the GPU's model."""


class MarksConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[marks]`: iteration marks that jobs send."""

    enabled: bool = True
    socket: Annotated[
        str, Meta(pattern=r"^([/@][^\x00]{1,106})?\Z", description="an absolute path or @NAME")
    ] = ""
    """Where marks are received; empty: `marks.sock` in run_dir."""
