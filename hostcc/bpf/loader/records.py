"""Packs Python values into C memory, without numpy's readiness to guess.

numpy cuts long strings, spreads one number over all fields of a struct, and closes the gaps in a
struct when it joins arrays.  None of that may happen to what the kernel reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

DType = np.dtype[Any]
Array = npt.NDArray[Any]

_SCALARS = (bool, int, float, str, bytes, np.number, np.bool_)


def pack(value: Any, dtype: DType) -> Array:
    """Pack `value`, one item or an array of them, as zero-padded memory of `dtype`.

    Padding is zero even when `value` carried something there: it is part of a hash map's
    key.  Raises ValueError when the value does not fit.
    """
    try:
        _refuse_guesses(value, dtype)
        given = np.asarray(value, dtype)
    except (TypeError, OverflowError) as error:
        raise ValueError(str(error)) from error
    packed = np.zeros(given.shape, dtype)
    copy_fields(packed, given)
    return packed


def pack_one(value: Any, dtype: DType) -> Array:
    """Pack `value` as exactly one item of `dtype`, which may be an array type; else ValueError."""
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        packed = pack(value, base)
        if packed.shape != shape:
            raise ValueError(f"expected {shape} items, got {packed.shape}")
        return packed
    packed = pack(value, dtype)
    if packed.ndim:
        raise ValueError("expected one item, got several")
    return packed


def copy_fields(target: Array, source: Array) -> None:
    """Assign field by field, so that the padding between fields stays as it is."""
    if target.dtype.names is None:
        target[...] = source
        return
    for name in target.dtype.names:
        copy_fields(target[name], source[name])


def join(parts: Sequence[Array], dtype: DType) -> Array:
    """Concatenate arrays of `dtype`, its gaps and overlaps kept."""
    if len(parts) == 1:
        return parts[0]
    shape = parts[0].shape[1:] if parts else ()
    joined = np.empty((sum(map(len, parts)), *shape), dtype)
    position = 0
    for part in parts:
        joined[position : position + len(part)] = part
        position += len(part)
    return joined


def _refuse_guesses(value: Any, dtype: DType) -> None:
    # Raise ValueError for what numpy would take, but not as it was meant.
    struct = dtype.names is not None
    if isinstance(value, np.ndarray | np.void):
        if struct and value.dtype.names is None:
            raise ValueError("expected all fields of the struct")
    elif struct and isinstance(value, _SCALARS):
        raise ValueError("expected a tuple of all fields")
    elif isinstance(value, list) and (struct or dtype.kind == "S"):
        for item in value:
            _refuse_guesses(item, dtype)
    elif dtype.names is not None and isinstance(value, tuple):
        for field, name in zip(value, dtype.names, strict=True):
            _refuse_guesses(field, dtype[name])
    elif dtype.kind == "S" and isinstance(value, str | bytes) and len(value) > dtype.itemsize:
        raise ValueError(f"longer than {dtype.itemsize} bytes")
