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


class Memory:
    """Rates of B variants of R rows by the set of active rows."""

    def __init__(self, rows: int, variants: int) -> None:
        self.bit = 2.0 ** np.arange(rows)
        self.code = np.full(variants << BITS, -1, np.int64)
        self.rates = np.zeros((variants << BITS, rows))

    def place(self, active: NDArray[np.bool_], variant: Ints) -> tuple[Ints, Ints]:
        """For `active` (R, N) of the variants (N,): where the sets belong, and their codes."""
        code = (self.bit @ active).astype(np.int64)
        slot = (code.view(np.uint64) * MIX) >> np.uint64(64 - BITS)
        return (variant << BITS) + slot.view(np.int64), code

    def at(self, place: Ints) -> Floats:
        """(R, N) the rates that are kept there."""
        # What belongs to a variant lies together: the memory as a whole fits in no cache.
        return np.ascontiguousarray(self.rates.take(place, axis=0).T)

    def learn(self, place: Ints, code: Ints, rates: Floats) -> None:
        """Keep `rates` (R, N)."""
        self.code[place] = code
        self.rates[place] = rates.T
