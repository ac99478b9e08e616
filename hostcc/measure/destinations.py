"""Pure: whose a row of the byte meter is, and which rows to take back when they run short.

The kernel side gives a row to each new (job, destination) while there are free ones; this
side takes back those that have been silent longest.  Nothing is evicted that still has bytes
to be read, so nothing is lost by it.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import Any

import numpy as np
import numpy.typing as npt

Records = npt.NDArray[np.void]
Indices = npt.NDArray[np.intp]
Address = IPv4Address | IPv6Address

DESTINATION = np.dtype(
    [("slot", "u2"), ("local", "?"), ("other", "?"), ("addr", "u1", (16,))], align=False
)
"""Who a row is: the job's slot, the host at the other end (IPv4 as ::ffff:a.b.c.d).

`local`: over loopback, so it used no link.  `other`: all destinations together that found no
free row; `addr` is zero then.
"""


def address(packed: npt.NDArray[np.uint8]) -> Address:
    """The address in 16 bytes of a row."""
    wide = IPv6Address(packed.tobytes())
    return wide.ipv4_mapped or wide


class Rows:
    """Which row belongs to whom.  Rows are numbers below `count`; row 0 is nobody's."""

    def __init__(self, count: int) -> None:
        self.who: Records = np.zeros(count, DESTINATION)
        """By row; what a free row says is what it was last."""
        self.used = np.zeros(count, np.bool_)
        """Rows that the kernel's table names."""

    @property
    def in_use(self) -> int:
        """Rows that the kernel's table names."""
        return int(self.used.sum())

    def learn(self, keys: npt.NDArray[Any], rows: npt.NDArray[Any]) -> None:
        """What the kernel's table says now: keys (struct hcc_meter_key) and their rows."""
        for name in ("slot", "local", "addr"):
            self.who[name][rows] = keys[name]
        self.who["other"][rows] = False
        self.used[:] = False
        self.used[rows] = True

    def set_other(self, row: int, slot: int) -> None:
        """Give a job its row for destinations without one."""
        self.who[row] = (slot, False, True, np.zeros(16, np.uint8))

    def of_slot(self, slot: int) -> Indices:
        """Rows in use by a job."""
        return np.flatnonzero(self.used & (self.who["slot"] == slot))

    def idle(self, last: npt.NDArray[np.int64], before: int, most: int) -> Indices:
        """Up to `most` rows in use whose `last` bin is before bin `before`, oldest first."""
        candidates = np.flatnonzero(self.used & (last < before))
        return candidates[np.argsort(last[candidates], kind="stable")[: max(0, most)]]

    def drop(self, rows: Indices) -> None:
        """These rows have left the kernel's table."""
        self.used[rows] = False


@dataclass(frozen=True)
class Recycling:
    """When rows are taken back."""

    capacity: int
    """Rows that there are for destinations."""
    reserve: float = 0.125
    """Part of them to keep free."""

    def wanted(self, in_use: int) -> int:
        """How many rows to take back now; 0 while enough are free."""
        low = int(self.capacity * self.reserve)
        free = self.capacity - in_use
        return 0 if free >= low else 2 * low - free


def sum_by(keys: npt.NDArray[Any], values: npt.NDArray[np.int64]) -> tuple[Any, Any]:
    """Distinct keys, and the sums of the rows of `values` (shape (n, ...)) that have each."""
    distinct, where = np.unique(keys, return_inverse=True)
    sums = np.zeros((len(distinct), *values.shape[1:]), np.int64)
    np.add.at(sums, where.reshape(-1), values)
    return distinct, sums
