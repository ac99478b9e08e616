"""Peak of a GPU by the name that NVML gives it, for hosts that cannot measure its work.  Pure.

Dense FP16 or BF16 FLOP/s of the tensor cores, and multiprocessors: NVIDIA's data sheets, of GeForce
and RTX the architectures' white papers (with FP32 accumulation).
"""

from __future__ import annotations

import re

from hostcc.measure.gpu.peaks import peak
from hostcc.measure.gpu.readings import Gpu, Pipe

MODELS: tuple[tuple[str, float, int], ...] = (
    (r"GB[23]00", 2500e12, 148),
    (r"B[23]00", 2250e12, 148),
    (r"RTX PRO 6000 Blackwell", 504e12, 188),
    (r"H100 NVL|H200 NVL", 835e12, 132),
    (r"H100 PCIe|H800 PCIe", 756e12, 114),
    (r"GH200|H[128]00", 989e12, 132),
    (r"H20", 148e12, 78),
    (r"L40S", 362e12, 142),
    (r"L40", 181e12, 142),
    (r"L4", 121e12, 58),
    (r"RTX 6000 Ada", 364e12, 142),
    (r"RTX 4090", 165e12, 128),
    (r"A[18]00", 312e12, 108),
    (r"A40", 150e12, 84),
    (r"A30", 165e12, 56),
    (r"A10", 125e12, 72),
    (r"RTX A6000", 155e12, 84),
    (r"RTX 3090", 71e12, 82),
    (r"T4", 65e12, 40),
    (r"V100S", 130e12, 80),
    (r"V100.*PCIE", 112e12, 80),
    (r"V100", 125e12, 80),
    (r"P100.*PCIE", 18.7e12, 56),
    (r"P100", 21.2e12, 56),
)
"""(Whole words in the name, FLOP/s, multiprocessors); the first that is found counts."""
_KNOWN = tuple(
    (re.compile(rf"\b(?:{words})\b", re.IGNORECASE), flop_per_s, multiprocessors)
    for words, flop_per_s, multiprocessors in MODELS
)


def model_peak(gpu: Gpu) -> float | None:
    """Return FLOP/s of a GPU, or of a GPU instance by its part of the multiprocessors.

    A name that the table lacks: by compute capability (peaks.py).  None: that is unknown too.
    """
    for words, flop_per_s, multiprocessors in _KNOWN:
        if gpu.name is not None and words.search(gpu.name):
            own = gpu.multiprocessors or multiprocessors
            return flop_per_s * min(1.0, own / multiprocessors)
    return peak(gpu.capability, gpu.multiprocessors, gpu.max_clock_hz, Pipe.TENSOR) or None
