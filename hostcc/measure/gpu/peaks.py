"""How much a GPU can compute: FLOP per clock and multiprocessor, times both.

A fused multiply-add is two.  Non-tensor rates: CUDA C++ Programming Guide, "Throughput of
Native Arithmetic Instructions" (results per clock per SM, times two).  Tensor rates are
dense, with FP32 accumulation: the peak of the data sheet over SMs and boost clock, for
V100 (125 TFLOP/s, 80 SMs, 1.53 GHz), T4 (65, 40, 1.59), A100 (312 and 19.5 at FP64, 108,
1.41), A40 (150, 84, 1.74), L40S (362, 142, 2.52), H100 SXM (989 at 1.83 GHz and 67 at FP64
and 1.98 GHz, 132), B200 (2250 and 37 at FP64, 148, 1.85 and 1.97), RTX PRO 6000 Blackwell
(500, 188, 2.6).
"""

from __future__ import annotations

from collections.abc import Mapping

from hostcc.measure.gpu.readings import Pipe

MAX_MULTIPROCESSORS = 4096
MAX_CLOCK_HZ = 10e9
_T, _D, _16, _32, _64 = Pipe.TENSOR, Pipe.TENSOR64, Pipe.FP16, Pipe.FP32, Pipe.FP64

FLOP_PER_CLOCK: Mapping[tuple[int, int], Mapping[Pipe, int]] = {
    (6, 0): {_16: 256, _32: 128, _64: 64},
    (6, 1): {_16: 4, _32: 256, _64: 8},
    (7, 0): {_T: 1024, _16: 256, _32: 128, _64: 64},
    (7, 5): {_T: 1024, _16: 256, _32: 128, _64: 4},
    (8, 0): {_T: 2048, _D: 128, _16: 512, _32: 128, _64: 64},
    (8, 6): {_T: 1024, _16: 256, _32: 256, _64: 4},
    (8, 9): {_T: 1024, _16: 256, _32: 256, _64: 4},
    (9, 0): {_T: 4096, _D: 256, _16: 512, _32: 256, _64: 128},
    (10, 0): {_T: 8192, _D: 128, _16: 512, _32: 256, _64: 128},
    (10, 3): {_T: 8192, _D: 4, _16: 512, _32: 256, _64: 4},
    (12, 0): {_T: 1024, _16: 256, _32: 256, _64: 4},
}
"""Per clock and multiprocessor, by compute capability."""

CORES_PER_SM: Mapping[tuple[int, int], int] = {
    at: rates[Pipe.FP32] // 2 for at, rates in FLOP_PER_CLOCK.items()
}
"""What NVML calls cores, per multiprocessor."""


def known_capability(capability: tuple[int, int]) -> tuple[int, int] | None:
    """The newest capability of the table that is not newer; None when all are newer."""
    return max((at for at in FLOP_PER_CLOCK if at <= capability), default=None)


def peak(
    capability: tuple[int, int] | None,
    multiprocessors: float | None,
    clock_hz: float | None,
    pipe: Pipe,
) -> float | None:
    """FLOP/s of one pipe; 0 when the GPU has no such pipe, None when a value is missing.

    Values that no GPU has count as missing.  An architecture that is newer than the table
    counts as the newest before it, which keeps GPUs of one kind comparable.
    """
    if capability is None or multiprocessors is None or clock_hz is None:
        return None
    if not (0 < multiprocessors <= MAX_MULTIPROCESSORS and 0 < clock_hz <= MAX_CLOCK_HZ):
        return None
    at = known_capability(capability)
    return None if at is None else FLOP_PER_CLOCK[at].get(pipe, 0) * multiprocessors * clock_hz
