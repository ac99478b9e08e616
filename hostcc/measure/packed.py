"""Whole numbers that are often 0, and seldom large, in few bytes; nothing is lost.

Bytes in bins of a millisecond are 0 while a job computes, and need three bytes up to 130 Gbit/s.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hostcc.measure.series import Ints

WIDTH = 8
"""Bytes of a number that is not packed."""


@dataclass(frozen=True, slots=True)
class Packed:
    """What `packed` makes of an array."""

    count: int
    """Numbers."""
    width: int
    """Bytes of each that is kept; 0: all are 0, and none is kept."""
    sparse: bool
    """Whether one bit a number comes first, which says that it is not 0; only those are kept."""
    data: bytes


def packed(values: Ints) -> Packed:
    """The numbers in the fewest bytes of the ways that there are."""
    count, most = len(values), 0
    if count:
        # Seen as unsigned numbers negative ones are the largest, and need all bytes.
        most = int(np.ascontiguousarray(values).view(np.uint64).max())
    if not most:
        return Packed(count, 0, sparse=True, data=b"")
    width = -(-most.bit_length() // 8)
    used = values != 0
    if -(-count // 8) + int(np.count_nonzero(used)) * width < count * width:
        data = np.packbits(used).tobytes() + _cut(values[used], width)
        return Packed(count, width, sparse=True, data=data)
    return Packed(count, width, sparse=False, data=_cut(values, width))


def unpack(of: Packed, into: Ints) -> None:
    """Write the numbers to an array of zeros, shape (of.count,)."""
    if not of.width:
        return
    if not of.sparse:
        into[:] = _filled(of.data, of.width)
        return
    bits = -(-of.count // 8)
    used = np.unpackbits(np.frombuffer(of.data, np.uint8, bits), count=of.count)
    into[used.view(np.bool_)] = _filled(of.data[bits:], of.width)


def _cut(values: Ints, width: int) -> bytes:
    """The lowest byte of each number, then the next one of each, and so on."""
    whole = np.ascontiguousarray(values, "<i8").view(np.uint8)
    return whole.reshape(-1, WIDTH).T[:width].tobytes()


def _filled(data: bytes, width: int) -> npt.NDArray[np.int64]:
    """The numbers that these are the lowest bytes of."""
    lowest = np.frombuffer(data, np.uint8).reshape(width, -1)
    found = np.zeros((lowest.shape[1], WIDTH), np.uint8)
    found.T[:width] = lowest
    return found.view("<i8").reshape(-1)
