"""What one look at a GPU brings: values that are missing are None, never an exception."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

MAX_GPUS = 128
"""GPUs and MIG instances looked at on one host."""
MAX_PROCESSES = 1024
"""Processes looked at on one GPU."""


class Pipe(StrEnum):
    """The parts of a multiprocessor that do floating-point work."""

    TENSOR = "tensor"
    """Matrix units at half precision (FP16, BF16)."""
    TENSOR64 = "tensor64"
    """Matrix units at double precision."""
    FP16 = "fp16"
    FP32 = "fp32"
    FP64 = "fp64"


class Source(StrEnum):
    """Where a figure of work comes from, the best first."""

    DECLARED = "declared"
    COUNTERS = "counters"
    """GPM: activity of each pipe (Hopper and newer)."""
    UTILISATION = "utilisation"
    """Time with any kernel running, taken as if it ran at peak: an upper bound."""
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Gpu:
    """A GPU, or one GPU instance of a GPU in MIG mode."""

    uuid: str
    """The driver's name for it; of a GPU instance, that of the GPU, `/gi` and its number."""
    name: str | None = None
    capability: tuple[int, int] | None = None
    """CUDA compute capability, like (9, 0)."""
    multiprocessors: float | None = None
    """SMs; a fraction is possible for a MIG instance, of which only slices are known."""
    max_clock_hz: float | None = None
    """Highest SM clock, Hz."""


@dataclass(frozen=True)
class Reading:
    """One GPU between two looks at it."""

    gpu: Gpu
    start_s: float
    end_s: float
    """CLOCK_MONOTONIC, seconds."""
    clock_hz: float | None = None
    """Mean SM clock, Hz."""
    sm: float | None = None
    """Share of the multiprocessors that were busy, 0 to 1 (GPM)."""
    pipes: Mapping[Pipe, float] = field(default_factory=dict)
    """Activity of each pipe, 0 to 1 (GPM); a pipe that is not reported is absent."""
    utilisation: float | None = None
    """Share of the time with any kernel running, 0 to 1."""
    pids: tuple[int, ...] = ()
    """Processes with a compute context."""
    pid_use: Mapping[int, float] | None = None
    """SM use of each process, in any unit; None where the driver does not tell."""

    @property
    def busy(self) -> float | None:
        """How busy the GPU was, 0 to 1: the finest measure that there is."""
        return self.utilisation if self.sm is None else self.sm


@dataclass(frozen=True)
class Sample:
    """All GPUs of this host at one look; `why` says in words why there are none."""

    readings: tuple[Reading, ...] = ()
    why: str = ""
