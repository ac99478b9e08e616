"""One job: how its sockets are found, and what its owner asked for."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec import Struct

from hostcc.config.sections.words import (
    Bytes,
    Factor,
    Flop,
    FTable,
    JobName,
    Micros,
    Ports,
    Silence,
    Slope,
    Weight,
)
from hostcc.mltcp.params import Scope, ShapeKind, Variant


class JobConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[[job]]`: a job's settings, and how to find its sockets if `hostcc run` did not start it."""

    name: JobName
    weight: Weight = 1.0
    """Multiplies F; in static mode it is F, unless `unfair static` sets another one."""
    bytes_per_iteration: Bytes | None = None
    """Bytes that this host sends in one iteration; absent: learned."""
    flops: Flop | None = None
    """FLOP of one iteration on this host's GPUs; absent: measured."""
    local_ports: Ports = ()
    remote_ports: Ports = ()
    variant: Variant | None = None
    ratio_scope: Scope | None = None
    shape: ShapeKind | None = None
    slope: Slope | None = None
    intercept: Factor | None = None
    table: FTable | None = None
    delay_target_min_us: Micros | None = None
    delay_target_max_us: Micros | None = None
    silence_us: Silence | None = None


@dataclass(frozen=True)
class JobRequest:
    """What a job's owner asked for at `hostcc run`, or since then; None: nothing."""

    weight: float | None = None
    bytes_per_iteration: int | None = None
    flops: float | None = None
    by_root: bool = False
    """Whether root has set one of these: a user then sets none."""

    def over(self, earlier: JobRequest) -> JobRequest:
        """Return these requests, completed by earlier ones."""
        size, flops = self.bytes_per_iteration, self.flops
        return JobRequest(
            earlier.weight if self.weight is None else self.weight,
            earlier.bytes_per_iteration if size is None else size,
            earlier.flops if flops is None else flops,
            self.by_root or earlier.by_root,
        )

    def shown(self) -> dict[str, float | int | None]:
        """Return them as the journal stores them for the next agent."""
        asked: dict[str, float | int | None] = {
            "weight": self.weight,
            "bytes_per_iteration": self.bytes_per_iteration,
        }
        if self.flops is not None:
            asked["flops"] = self.flops
        return {**asked, "by_root": True} if self.by_root else asked

    @property
    def empty(self) -> bool:
        """Whether nothing was asked for."""
        return self.weight is self.bytes_per_iteration is self.flops is None
