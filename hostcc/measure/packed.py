"""Whole numbers that are often 0, and seldom large, in few bytes; nothing is lost.

Bytes in bins of a millisecond are 0 while a job computes, and fit in four bytes below 30 Tbit/s.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hostcc.measure.series import Ints

WIDTHS = (("u1", 1), ("u2", 2), ("u4", 4), ("i8", 8))
"""Types and their bytes: the smallest that all fit in is taken."""


@dataclass(frozen=True, slots=True)
class Packed:
    """What `packed` makes of an array."""

    count: int
    """Numbers."""
    width: str
    """Type of those that are kept; empty: all are 0, and none is kept."""
    sparse: bool
    """Whether one bit a number comes first, which says that it is not 0; only those are kept."""
    data: bytes


def packed(values: Ints) -> Packed:
    """The numbers in the fewest bytes of the ways that there are."""
    count, most = len(values), 0
    if count:
        # Seen as unsigned numbers negative ones are the largest, and fit nothing but the last type.
        most = int(np.ascontiguousarray(values).view(np.uint64).max())
    if not most:
        return Packed(count, "", sparse=True, data=b"")
    width, size = next((w, s) for w, s in WIDTHS if s == 8 or most < 1 << 8 * s)
    used = values != 0
    if -(-count // 8) + int(np.count_nonzero(used)) * size < count * size:
        data = np.packbits(used).tobytes() + values[used].astype(width).tobytes()
        return Packed(count, width, sparse=True, data=data)
    return Packed(count, width, sparse=False, data=values.astype(width).tobytes())


def unpack(of: Packed, into: Ints) -> None:
    """Write the numbers to an array of zeros, shape (of.count,)."""
    if not of.width:
        return
    if not of.sparse:
        into[:] = np.frombuffer(of.data, of.width)
        return
    bits = -(-of.count // 8)
    used = np.unpackbits(np.frombuffer(of.data, np.uint8, bits), count=of.count)
    into[used.view(np.bool_)] = np.frombuffer(of.data, of.width, offset=bits)
