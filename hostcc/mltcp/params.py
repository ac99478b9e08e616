"""Congestion-control parameters of a job: pure, typed, bounded.

Units are in the names. Sources: Rajasekaran, MIT thesis 2025, chapter 5; MLTCP, arXiv 2402.09589,
for F(bytes_ratio) = slope * bytes_ratio + intercept.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class Mode(StrEnum):
    """How a job's window is scaled."""

    OFF = "off"
    MLTCP = "mltcp"
    STATIC = "static"


class Scope(StrEnum):
    """Whether bytes_ratio is that of the job on this host or of each flow."""

    JOB = "job"
    FLOW = "flow"


class ShapeKind(StrEnum):
    """Form of F(bytes_ratio)."""

    LINEAR = "linear"
    EXPONENTIAL = "exponential"
    TABLE = "table"


class Variant(StrEnum):
    """Congestion controls of hostcc; the value is the suffix of the kernel name."""

    HOSTCC = "hostcc"
    RENO = "reno"
    CUBIC = "cubic"
    DCTCP = "dctcp"


@dataclass(frozen=True)
class Shape:
    """F(bytes_ratio), for bytes_ratio r in [0, 1].

    linear: slope * r + intercept. exponential: intercept * 2 ** (slope * r). table: piecewise
    linear through `table`, spaced evenly over [0, 1].
    """

    kind: ShapeKind = ShapeKind.LINEAR
    slope: float = 1.75
    intercept: float = 0.25
    table: tuple[float, ...] = ()


@dataclass(frozen=True)
class JobParams:
    """Congestion-control parameters of one job on this host."""

    name: str
    variant: Variant = Variant.HOSTCC
    mode: Mode = Mode.MLTCP
    scope: Scope = Scope.JOB
    shape: Shape = field(default_factory=Shape)
    weight: float = 1.0
    """The owner's weight, which multiplies F; 0.01 to 100."""
    static_weight: float = 1.0
    """F in static mode, 0.01 to 100."""
    bytes_per_iteration: int | None = None
    """Bytes that this host sends per iteration; None: learned."""
    silence_us: int | None = None
    """Silence that ends an iteration; None: learned."""
    target_min_us: int = 300
    """Queueing delay above which a job that has just begun to send yields."""
    target_max_us: int = 1400
    """Queueing delay above which a job that is about to finish yields."""
    plain_weight: float = 1.0
    """F of the hostcc variant for a job that receives while it sends."""

    @property
    def runs(self) -> Variant | None:
        """The variant that its sockets run; None: the host's default."""
        return None if self.mode is Mode.OFF else self.variant
