"""What the links gave, remembered: a simulation meets the same sets of active flows again.

Who gets what depends on nothing but which rows are active.  A variant goes through some 30
such sets in hundreds of steps, so each is computed once and looked up then.
"""

from __future__ import annotations

import mmap

import numpy as np
from numpy.typing import NDArray

from hostcc.schedule.problem import Floats, Ints

MOST_ROWS = 52
"""Rows up to which a set of them is a whole number that a float holds exactly."""
BITS = 7
"""Of a set's place: 2**BITS sets of each variant are kept, a later one instead of an earlier."""
MIX = np.uint64(0x9E3779B97F4A7C15)  # Knuth's multiplicative hashing, for 64 bits


class Memory:
    """Rates of B variants of R rows by the set of active rows."""

    def __init__(self, rows: int, variants: int) -> None:
        self.bit = 2.0 ** np.arange(rows)
        self.row = np.zeros(variants << BITS, np.int32)
        """Of a place, in `code` and `rates`; 0: nothing is there."""
        most = 1 + (variants << BITS)
        self.code = _untouched(most, 1)[:, 0].view(np.int64)
        self.code[0] = -1
        self.rates = _untouched(most, rows)
        self.kept = 1

    def place(self, active: NDArray[np.bool_], variant: Ints) -> tuple[Ints, Ints]:
        """For `active` (R, N) of the variants (N,): where the sets belong, and their codes."""
        code = (self.bit @ active).astype(np.int64)
        slot = (code.view(np.uint64) * MIX) >> np.uint64(64 - BITS)
        return (variant << BITS) + slot.view(np.int64), code

    def knows(self, place: Ints, code: Ints) -> NDArray[np.bool_]:
        """(N,) whether those sets are there, and not others of the same place."""
        known: NDArray[np.bool_] = self.code.take(self.row.take(place)) == code
        return known

    def at(self, place: Ints) -> Floats:
        """(R, N) the rates that are kept there; 0 where none are."""
        return np.ascontiguousarray(self.rates.take(self.row.take(place), axis=0).T)

    def learn(self, place: Ints, code: Ints, rates: Floats) -> None:
        """Keep `rates` (R, N); no place may be there twice."""
        row = self.row[place]
        added = np.flatnonzero(row == 0)
        row[added] = np.arange(self.kept, self.kept + len(added))
        self.kept += len(added)
        self.row[place] = row
        self.code[row] = code
        self.rates[row] = rates.T


def _untouched(count: int, width: int) -> Floats:
    """(count, width) zeros, of which only those that are written to take memory.

    The kernel's and not the heap's, where they would leave holes: four of five places stay empty,
    and for ten flows all of them would take seven megabytes.
    """
    return np.frombuffer(mmap.mmap(-1, 8 * count * width)).reshape(count, width)
