"""What the links gave, remembered: a simulation meets the same sets of active flows again.

Who gets what depends on nothing but which rows are active.  A variant goes through some 30
such sets in hundreds of steps, so each is computed once and looked up then.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hostcc.schedule.problem import Floats, Ints

MOST_ROWS = 52
"""Rows up to which a set of them is a whole number that a float holds exactly."""
BITS = 7
"""Of a set's place: 2**BITS sets of each variant are kept, a later one instead of an earlier."""
MIX = np.uint64(0x9E3779B97F4A7C15)  # Knuth's multiplicative hashing, for 64 bits


FIRST, GROWTH = 8, 1.5
"""Sets of each variant that there is room for at first, and by how much it grows: most places
stay empty, and room for all of them would be megabytes for ten flows."""


class Memory:
    """Rates of B variants of R rows by the set of active rows."""

    def __init__(self, rows: int, variants: int) -> None:
        self.bit = 2.0 ** np.arange(rows)
        self.code = np.full(variants << BITS, -1, np.int64)
        self.row = np.zeros(variants << BITS, np.int32)
        """Of a place, in `rates`; 0: nothing is there yet."""
        self.rates = np.empty((1 + FIRST * variants, rows))
        self.rates[0] = 0.0
        self.kept = 1

    def place(self, active: NDArray[np.bool_], variant: Ints) -> tuple[Ints, Ints]:
        """For `active` (R, N) of the variants (N,): where the sets belong, and their codes."""
        code = (self.bit @ active).astype(np.int64)
        slot = (code.view(np.uint64) * MIX) >> np.uint64(64 - BITS)
        return (variant << BITS) + slot.view(np.int64), code

    def at(self, place: Ints) -> Floats:
        """(R, N) the rates that are kept there; 0 where none are."""
        return np.ascontiguousarray(self.rates.take(self.row.take(place), axis=0).T)

    def learn(self, place: Ints, code: Ints, rates: Floats) -> None:
        """Keep `rates` (R, N); no place may be there twice."""
        row = self.row[place]
        added = np.flatnonzero(row == 0)
        if len(added):
            row[added] = np.arange(self.kept, self.kept + len(added))
            self.kept += len(added)
            self._grow()
            self.row[place] = row
        self.code[place] = code
        self.rates[row] = rates.T

    def _grow(self) -> None:
        there, rows = self.rates.shape
        if self.kept > there:
            larger = np.empty((max(self.kept, int(GROWTH * there)), rows))
            larger[:there] = self.rates
            self.rates = larger
