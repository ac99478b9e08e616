"""Jobs that send by RDMA."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from hostcc.config.sections.words import ShortPath

Dscp = Annotated[int, Meta(ge=0, le=63)]


class RdmaConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[rdma]`: the plan for jobs of `hostcc run --rdma`, and the NICs' own congestion control.

    Without the agent's heartbeat for agent.heartbeat_stale_s the jobs act as if without a plan.
    """

    enabled: bool = True
    """Whether a plan is published for them; never without an RDMA device."""
    plan: ShortPath = "/dev/shm/hostcc-rdma"
    """Shared memory from which the jobs read the plan."""
    counts: ShortPath = "/dev/shm/hostcc-qp"
    """Shared memory that each of their processes creates; `.PID` is appended, or `.INODE-PID` in a
    PID namespace of its own."""
    dscp: Annotated[tuple[Dscp, ...], Meta(max_length=16)] = ()
    """DSCP by level, the highest first; empty: traffic classes stay as the job sets them. RoCE
    needs the fabric's lossless classes, which only its operator knows."""
    steer: bool = True
    """Whether queue pairs are put on paths, and moved between them."""
    long_message_bytes: Annotated[int, Meta(ge=0, le=1 << 31)] = 0
    """Queue pairs whose messages are all shorter keep the path and class that the job gave them; 0:
    none does.  Where it is not 0, a queue pair is moved live, by its first long message."""
    probe_s: Annotated[float, Meta(ge=1, le=86_400)] = 60.0
    """Seconds between probes of the paths to a destination."""
    pace: bool = False
    """Whether jobs that share a NIC are paced to F times a fair share of it."""
    dcqcn: Literal["off", "static", "on"] = "static"
    """Whether NICs' DCQCN parameters are set. static: only by `hostcc unfair static`; on: also in
    mode mltcp."""
    dcqcn_steps: Annotated[int, Meta(ge=2, le=16)] = 4
    """Steps of bytes_ratio in mode mltcp; each costs a write to the NIC per iteration."""
