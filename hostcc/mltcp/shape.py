"""The function F(bytes_ratio) and related weights: pure functions on numpy arrays.

Source: MLTCP, arXiv 2402.09589, section 3; Rajasekaran, MIT thesis 2025, section 5.
"""

from __future__ import annotations

import hashlib
import math

import numpy as np
import numpy.typing as npt

from hostcc.mltcp.params import Shape, ShapeKind

Q10 = 1024
"""The number one in the fixed point of the BPF programs."""

F_MIN, F_MAX = 1 / Q10, 1000.0
"""F is clipped to this range, so that no window stops growing for good."""


def f_of(shape: Shape, ratio: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return F at each bytes_ratio (0 to 1, dimensionless), clipped to [F_MIN, F_MAX]."""
    r = np.clip(np.asarray(ratio, dtype=np.float64), 0.0, 1.0)
    if shape.kind is ShapeKind.TABLE and shape.table:
        values = np.interp(r, np.linspace(0.0, 1.0, len(shape.table)), shape.table)
    elif shape.kind is ShapeKind.EXPONENTIAL:
        values = shape.intercept * np.exp2(shape.slope * r)
    else:
        values = shape.slope * r + shape.intercept
    return np.clip(values, F_MIN, F_MAX)


def f_table_q10(shape: Shape, weight: float, points: int) -> npt.NDArray[np.uint32]:
    """Return `points` samples of weight * F, evenly spaced over bytes_ratio 0 to 1, in Q10."""
    values = f_of(shape, np.linspace(0.0, 1.0, points)) * weight
    return np.maximum(np.rint(np.clip(values, F_MIN, F_MAX) * Q10), 1).astype(np.uint32)


def urgency_bias_q10(weight: float, per_octave_q10: int) -> int:
    """Return the bias of urgency (Q10, signed): weight w acts as 1/w of the remaining time."""
    return round(math.log2(weight) * per_octave_q10)


def tie_q10(name: str) -> int:
    """Return 0 to 1023 from a job's name, so that every host breaks ties between jobs alike."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=4).digest(), "little") % Q10
