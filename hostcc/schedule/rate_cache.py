"""Caches rates by the set of active flows: a simulation meets the same sets again and again.

Rates depend on nothing but which rows are active. A variant goes through some 30 such sets in
hundreds of steps.
"""

from __future__ import annotations

import mmap

import numpy as np
from numpy.typing import NDArray

from hostcc.schedule.problem import Floats, Ints

MAX_ROWS = 52
"""Rows up to which a set of them is an integer that a float holds exactly."""
PLACE_BITS = 7
"""Each variant keeps 2**PLACE_BITS sets; a later one replaces an earlier one in its place."""
HASH_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # Knuth's multiplicative hashing, for 64 bits


class RateCache:
    """Rates of B variants of R rows, by the set of active rows."""

    def __init__(self, rows: int, variants: int) -> None:
        self.bit = 2.0 ** np.arange(rows)
        self.row = np.zeros(variants << PLACE_BITS, np.int32)
        """Index into `code` and `rates` for each place; 0: empty."""
        most = 1 + (variants << PLACE_BITS)
        self.code = _untouched(most, 1)[:, 0].view(np.int64)
        self.code[0] = -1
        self.rates = _untouched(most, rows)
        self.kept = 1

    def place(self, active: NDArray[np.bool_], variant: Ints) -> tuple[Ints, Ints]:
        """Return the places and codes of the sets `active` (R, N) of the variants (N,)."""
        code = (self.bit @ active).astype(np.int64)
        slot = (code.view(np.uint64) * HASH_MULTIPLIER) >> np.uint64(64 - PLACE_BITS)
        return (variant << PLACE_BITS) + slot.view(np.int64), code

    def contains(self, place: Ints, code: Ints) -> NDArray[np.bool_]:
        """Return (N,) whether those very sets are stored in their places."""
        known: NDArray[np.bool_] = self.code.take(self.row.take(place)) == code
        return known

    def at(self, place: Ints) -> Floats:
        """Return (R, N) the rates stored in places; 0 where none are."""
        return np.ascontiguousarray(self.rates.take(self.row.take(place), axis=0).T)

    def store(self, place: Ints, code: Ints, rates: Floats) -> None:
        """Store `rates` (R, N); no place may occur twice."""
        row = self.row[place]
        added = np.flatnonzero(row == 0)
        row[added] = np.arange(self.kept, self.kept + len(added))
        self.kept += len(added)
        self.row[place] = row
        self.code[row] = code
        self.rates[row] = rates.T


def _untouched(count: int, width: int) -> Floats:
    """Return (count, width) zeros that take memory only where they are written.

    An anonymous mapping instead of the heap, where the unused four fifths would leave holes: for
    ten flows all places together would take seven megabytes.
    """
    return np.frombuffer(mmap.mmap(-1, 8 * count * width)).reshape(count, width)
