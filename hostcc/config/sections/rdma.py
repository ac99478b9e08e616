"""Jobs that send by RDMA."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from hostcc.config.sections.words import ShortPath

Dscp = Annotated[int, Meta(ge=0, le=63)]


class RdmaConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[rdma]`: what jobs of `hostcc run --rdma` are told, and the NICs' own congestion control.

    Without the agent's heartbeat for agent.heartbeat_stale_s the jobs do as if nobody told them.
    """

    enabled: bool = True
    """Whether there is a plan for them; if not, or without an RDMA device, none is published."""
    plan: ShortPath = "/dev/shm/hostcc-rdma"
    """Shared memory that the jobs read."""
    counts: ShortPath = "/dev/shm/hostcc-qp"
    """Shared memory that each of their processes makes, `.PID` follows."""
    dscp: Annotated[tuple[Dscp, ...], Meta(max_length=16)] = ()
    """DSCP by level, the highest first; empty: the class stays as the job has it.  RoCE needs
    the classes that the fabric keeps free of loss, and only its operator knows which."""
    steer: bool = True
    """Whether queue pairs are put on paths, and moved between them."""
    probe_s: Annotated[float, Meta(ge=1, le=86_400)] = 60.0
    """How often the paths to a destination are asked for, seconds."""
    pace: bool = False
    """Whether posts of jobs that share a NIC are held back to F times a fair share of it."""
    dcqcn: Literal["off", "static", "on"] = "static"
    """Whether NICs' DCQCN parameters are set: static: by `hostcc unfair static` only; on: in mode
    mltcp, too."""
    dcqcn_steps: Annotated[int, Meta(ge=2, le=16)] = 4
    """Steps of bytes_ratio in mode mltcp; each costs a write to the NIC an iteration."""
