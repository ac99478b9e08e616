"""A series of which most bins are empty: only the others are kept.

A job that computes sends nothing for most of the time.  To add up, to shorten and to pack what it
sends costs by the bins in which it does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from hostcc.measure.series import NS, Bins, ByteSeries, Ints, silence

FULL = 8
"""A series is sparse below one full bin in this many; nothing is gained from there on."""


@dataclass(frozen=True, eq=False)
class Cells:
    """The same as a ByteSeries of `count` bins."""

    bin_ns: int
    """Length of a bin, nanoseconds, above 0."""
    start_ns: int
    """Of the first bin, nanoseconds on the clock of whoever measured."""
    count: int
    """Bins."""
    at: Ints
    """Which bins are not empty, in order, each once; shape (k,)."""
    sent: Ints
    """In these, shape (k,), none negative."""
    received: Ints

    def __len__(self) -> int:
        return self.count

    @property
    def bin_s(self) -> float:
        """Length of a bin, seconds."""
        return self.bin_ns / NS

    @property
    def end_ns(self) -> int:
        """Where the last bin ends."""
        return self.start_ns + self.count * self.bin_ns

    @property
    def few(self) -> bool:
        """Whether most bins are empty."""
        return FULL * len(self.at) < self.count

    @property
    def tx(self) -> Ints:
        """Sent, shape (n,)."""
        return self._all(self.sent)

    @property
    def rx(self) -> Ints:
        """Received, shape (n,)."""
        return self._all(self.received)

    def whole(self) -> ByteSeries:
        """All bins."""
        return ByteSeries(self.bin_ns, self.start_ns, self.tx, self.rx)

    def part(self, begin: int, end: int | None = None) -> ByteSeries:
        """Bins begin to end, as a slice would choose them."""
        first, last, _ = slice(begin, end).indices(self.count)
        return self.between(first, max(first, last)).whole()

    def between(self, first: int, last: int) -> Cells:
        """Bins first to last, 0 <= first <= last <= n."""
        low, high = np.searchsorted(self.at, (first, last)).tolist()
        return Cells(
            self.bin_ns,
            self.start_ns + first * self.bin_ns,
            last - first,
            self.at[low:high] - first,
            self.sent[low:high],
            self.received[low:high],
        )

    def preceded(self, bins: int) -> Cells:
        """With this many empty bins before the first one."""
        start_ns = self.start_ns - bins * self.bin_ns
        return replace(self, start_ns=start_ns, count=self.count + bins, at=self.at + bins)

    def coarser(self, factor: int) -> Cells:
        """Bins `factor` times as long; bins left over at the end are dropped."""
        count = self.count // factor
        kept = len(self.at)
        if count * factor < self.count:
            kept = int(np.searchsorted(self.at, count * factor))
        at, sent, received = added(self.at[:kept] // factor, self.sent[:kept], self.received[:kept])
        return replace(
            self, bin_ns=self.bin_ns * factor, count=count, at=at, sent=sent, received=received
        )

    def _all(self, values: Ints) -> Ints:
        found = np.zeros(self.count, np.int64)
        found[self.at] = values
        return found


def added(at: Ints, sent: Ints, received: Ints) -> tuple[Ints, Ints, Ints]:
    """Numbers of the same place added up; places in order, then each once."""
    if len(at) < 2:
        return at, sent, received
    first = np.flatnonzero(np.concatenate(((True,), at[1:] != at[:-1])))
    if len(first) == len(at):
        return at, sent, received
    return at[first], np.add.reduceat(sent, first), np.add.reduceat(received, first)


def cells(of: Bins) -> Cells:
    """A series without its empty bins."""
    if isinstance(of, Cells):
        return of
    bins = of.whole()
    (at,) = (bins.tx | bins.rx).nonzero()
    return Cells(bins.bin_ns, bins.start_ns, len(bins), at, bins.tx[at], bins.rx[at])


def chained(several: Sequence[Cells]) -> Cells:
    """One of several, at least one, that follow one another; a gap between them is silence.

    Raises ValueError when they do not fit together.
    """
    if len(several) == 1:
        return several[0]
    for before, after in pairwise(several):
        silence(before.bin_ns, before.end_ns, after)
    first, last = several[0], several[-1]
    ahead = [(one.start_ns - first.start_ns) // first.bin_ns for one in several]
    return Cells(
        first.bin_ns,
        first.start_ns,
        ahead[-1] + last.count,
        np.concatenate([one.at + more for one, more in zip(several, ahead, strict=True)]),
        np.concatenate([one.sent for one in several]),
        np.concatenate([one.received for one in several]),
    )
