"""Whole numbers that are often 0, and seldom large, in few bytes; nothing is lost.

Bytes in bins of a millisecond are 0 while a job computes, and need three bytes up to 130 Gbit/s.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np
import numpy.typing as npt

from hostcc.measure.series import Ints

WIDTH = 8
"""Bytes of a number that is not packed."""
PLACE = np.dtype("<u2")
"""Where a number is, in bins from the first."""
MOST_PLACES = 1 << 16
"""Numbers of which each has such a place."""


class Form(Enum):
    """Which numbers are kept."""

    ALL = 1
    BITS = 2
    """Those that are not 0; before them one bit a number says which these are."""
    PLACES = 3
    """The same; before them is where each of them is.  For few."""


@dataclass(frozen=True, slots=True)
class Packed:
    """What `packed` makes of an array."""

    count: int
    """Numbers."""
    width: int
    """Bytes of each that is kept; 0: all are 0, and none is kept."""
    form: Form
    data: bytes


def packed(values: Ints) -> Packed:
    """The numbers in the fewest bytes of the ways that there are."""
    count, most = len(values), 0
    if count:
        # Seen as unsigned numbers negative ones are the largest, and need all bytes.
        most = int(np.ascontiguousarray(values).view(np.uint64).max())
    if not most:
        return Packed(count, 0, Form.PLACES, b"")
    width = -(-most.bit_length() // 8)
    used = values != 0
    kept = int(np.count_nonzero(used))
    if _few(kept, count):
        (places,) = used.nonzero()
        return _listed(count, width, places, values[used])
    if -(-count // 8) + kept * width < count * width:
        return Packed(
            count, width, Form.BITS, np.packbits(used).tobytes() + _cut(values[used], width)
        )
    return Packed(count, width, Form.ALL, _cut(values, width))


def packed_at(count: int, places: Ints, values: Ints) -> Packed:
    """The same of `count` numbers that are 0 but at some places, given in order, each once.

    Numbers at these places of which some are 0 are all kept, so that two arrays of the same places
    keep the same ones (`alike`); of those that are mostly 0 the others are.
    """
    kept = int(np.count_nonzero(values))
    if 2 * kept < len(values):
        used = values != 0
        places, values = places[used], values[used]
    if not kept:
        return Packed(count, 0, Form.PLACES, b"")
    if _few(len(values), count):
        most = int(np.ascontiguousarray(values).view(np.uint64).max())
        return _listed(count, -(-most.bit_length() // 8), places, values)
    dense = np.zeros(count, np.int64)
    dense[places] = values
    return packed(dense)


def unpack(of: Packed, into: Ints) -> None:
    """Write the numbers to an array of zeros, shape (of.count,)."""
    if not of.width:
        return
    if of.form is Form.ALL:
        into[:] = _filled(of.data, of.width)
    elif of.form is Form.BITS:
        bits = -(-of.count // 8)
        used = np.unpackbits(np.frombuffer(of.data, np.uint8, bits), count=of.count)
        into[used.view(np.bool_)] = _filled(of.data[bits:], of.width)
    else:
        places, values = _from_list(of)
        into[places] = values


def alike(one: Packed, other: Packed) -> bool:
    """Whether `listed` gives the same places for both, as can be told without unpacking."""
    if not one.form is other.form is Form.PLACES or not one.width or not other.width:
        return False
    kept = _listed_count(one)
    places = PLACE.itemsize * kept
    return _listed_count(other) == kept and one.data[:places] == other.data[:places]


def last_place(of: Packed) -> int | None:
    """The last place at which there may be anything, -1 for none; None: it would have to be
    unpacked."""
    if not of.width:
        return -1
    if of.form is not Form.PLACES:
        return None
    end = PLACE.itemsize * _listed_count(of)
    return int.from_bytes(of.data[end - PLACE.itemsize : end], "little")


def listed(of: Packed) -> tuple[Ints, Ints]:
    """Places in order, among them all where numbers are not 0, and the numbers there."""
    if not of.width:
        return np.zeros((2, 0), np.int64)[0], np.zeros(0, np.int64)
    if of.form is Form.PLACES:
        places, values = _from_list(of)
        return places.astype(np.int64), values
    dense = np.zeros(of.count, np.int64)
    unpack(of, dense)
    (found,) = dense.nonzero()
    return found, dense[found]


def _few(kept: int, count: int) -> bool:
    """Whether so many places take less than a bit for each number."""
    return PLACE.itemsize * kept < -(-count // 8) and count <= MOST_PLACES


def _listed(count: int, width: int, places: Ints, values: Ints) -> Packed:
    return Packed(count, width, Form.PLACES, places.astype(PLACE).tobytes() + _cut(values, width))


def _from_list(of: Packed) -> tuple[npt.NDArray[np.uint16], Ints]:
    kept = _listed_count(of)
    return np.frombuffer(of.data, PLACE, kept), _filled(of.data[PLACE.itemsize * kept :], of.width)


def _listed_count(of: Packed) -> int:
    return len(of.data) // (PLACE.itemsize + of.width)


def _cut(values: Ints, width: int) -> bytes:
    """The lowest byte of each number, then the next one of each, and so on."""
    whole = np.ascontiguousarray(values, "<i8").view(np.uint8)
    return whole.reshape(-1, WIDTH).T[:width].tobytes()


def _filled(data: bytes, width: int) -> Ints:
    """The numbers that these are the lowest bytes of."""
    lowest = np.frombuffer(data, np.uint8).reshape(width, -1)
    found = np.zeros((lowest.shape[1], WIDTH), np.uint8)
    found.T[:width] = lowest
    return found.view("<i8").reshape(-1)
