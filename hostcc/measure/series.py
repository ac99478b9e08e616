"""Bytes over time: what every analysis of a job's traffic starts from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

Number = TypeVar("Number", np.float64, np.int64)

NS = 1_000_000_000
"""Nanoseconds in a second."""


class Bins(Protocol):
    """Bins that can be looked at in parts: a ByteSeries, or a History, which is packed."""

    @property
    def bin_ns(self) -> int:
        """Length of a bin, nanoseconds, above 0."""

    @property
    def bin_s(self) -> float:
        """Length of a bin, seconds."""

    @property
    def start_ns(self) -> int:
        """Of the first bin, nanoseconds on the clock of whoever measured."""

    @property
    def end_ns(self) -> int:
        """Where the last bin ends."""

    def __len__(self) -> int: ...

    def whole(self) -> ByteSeries:
        """All of them."""

    def part(self, begin: int, end: int | None = None) -> ByteSeries:
        """Bins begin to end, as a slice would choose them."""


@dataclass(frozen=True, eq=False)
class ByteSeries:
    """Bytes that a job sent and received in each of n bins of equal length.

    Bin k holds what passed in [start_ns + k bin_ns, start_ns + (k + 1) bin_ns).  A counter
    that was read late puts its bytes where they were seen, not where they passed.
    """

    bin_ns: int
    """Length of a bin, nanoseconds, above 0."""
    start_ns: int
    """Of the first bin, nanoseconds on the clock of whoever measured."""
    tx: Ints
    """Sent, shape (n,), none negative."""
    rx: Ints
    """Received, shape (n,)."""

    def __post_init__(self) -> None:
        if self.bin_ns <= 0:
            raise ValueError(f"bin_ns: expected more than 0, got {self.bin_ns}")
        if self.tx.ndim != 1 or self.tx.shape != self.rx.shape:
            raise ValueError(f"tx and rx: expected equal lengths, got {self.tx.shape} and "
                             f"{self.rx.shape}")  # fmt: skip

    def __len__(self) -> int:
        return len(self.tx)

    @property
    def bin_s(self) -> float:
        """Length of a bin, seconds."""
        return self.bin_ns / NS

    @property
    def total(self) -> Floats:
        """Bytes in both directions, shape (n,)."""
        return (self.tx + self.rx).astype(np.float64)

    @property
    def end_ns(self) -> int:
        """Where the last bin ends."""
        return self.start_ns + len(self) * self.bin_ns

    def whole(self) -> ByteSeries:
        """All of them: itself."""
        return self

    def part(self, begin: int, end: int | None = None) -> ByteSeries:
        """Bins begin to end, as a slice would choose them."""
        first, last, _ = slice(begin, end).indices(len(self))
        return replace(
            self,
            start_ns=self.start_ns + first * self.bin_ns,
            tx=self.tx[first:last],
            rx=self.rx[first:last],
        )


def series(
    tx: npt.ArrayLike, rx: npt.ArrayLike | None, bin_ns: int, start_ns: int = 0
) -> ByteSeries:
    """A series from anything like an array; without `rx` nothing was received."""
    sent = np.asarray(tx, dtype=np.int64)
    received = np.zeros_like(sent) if rx is None else np.asarray(rx, dtype=np.int64)
    return ByteSeries(bin_ns, start_ns, sent, received)


def empty(bin_ns: int, start_ns: int = 0) -> ByteSeries:
    """A series without bins."""
    return series((), None, bin_ns, start_ns)


def part(of: Bins, begin: int, end: int | None = None) -> ByteSeries:
    """Bins begin to end, as a slice would choose them."""
    return of.part(begin, end)


def joined(before: ByteSeries, after: ByteSeries) -> ByteSeries:
    """Two series, the second of which begins where the first ends.

    Bins that nobody measured in between are bins without bytes; raises ValueError when the
    bins do not fit together.
    """
    if not len(before):
        return after
    return continued(before, after, silence(before.bin_ns, before.end_ns, after))


def continued(before: ByteSeries, later: Bins, gap: int = 0) -> ByteSeries:
    """With the bins of a later series from the end on; the later one may begin before.

    Up to `gap` bins in between that nobody measured are bins without bytes.  Raises ValueError for
    more of them, and for bins that do not fit together.
    """
    known, off = divmod(before.end_ns - later.start_ns, before.bin_ns)
    if later.bin_ns != before.bin_ns or off or known < -gap:
        raise ValueError(
            f"expected bins of {before.bin_ns} ns from {before.end_ns} on, got bins of "
            f"{later.bin_ns} ns from {later.start_ns} on"
        )
    missing, new = np.zeros(max(0, -known), dtype=np.int64), later.part(max(0, known))
    tx, rx = (
        np.concatenate((getattr(before, way), missing, getattr(new, way))) for way in ("tx", "rx")
    )
    return replace(before, tx=tx, rx=rx)


def silence(bin_ns: int, end_ns: int, after: Bins) -> int:
    """Bins between `end_ns` and a series; raises ValueError when they do not fit together."""
    ahead, off = divmod(after.start_ns - end_ns, bin_ns)
    if after.bin_ns != bin_ns or off or ahead < 0:
        raise ValueError(
            f"expected bins of {bin_ns} ns from {end_ns} on, got bins of "
            f"{after.bin_ns} ns from {after.start_ns} on"
        )
    return ahead


def rebinned(of: ByteSeries, factor: int) -> ByteSeries:
    """Bins `factor` times as long; bins left over at the end are dropped."""
    return replace(
        of, bin_ns=of.bin_ns * factor, tx=coarser(of.tx, factor), rx=coarser(of.rx, factor)
    )


def coarser(values: npt.NDArray[Number], factor: int) -> npt.NDArray[Number]:
    """Sums of `factor` neighbours, shape (n // factor,)."""
    if factor == 1:
        return values
    kept = len(values) // factor * factor
    summed: npt.NDArray[Number] = values[:kept].reshape(-1, factor).sum(axis=1)
    return summed


def cumulative(values: npt.NDArray[np.float64] | Ints) -> Floats:
    """Bytes before each edge, shape (n + 1,): what is between two edges is a difference."""
    return np.concatenate(((0.0,), np.cumsum(values, dtype=np.float64)))


def smoothed(values: Floats, width: int) -> Floats:
    """Means over `width` bins, twice, so that nothing moves; shape (n,)."""
    count = len(values)
    most = min(width, count)
    sums = cumulative(values)
    ends = np.full(most, sums[-1])
    sums = cumulative((np.concatenate((sums[most:], ends))[:count] - sums[:-1]) / width)
    begins = np.zeros(min(width - 1, count))
    first = np.concatenate((begins, sums[: count - len(begins)]))
    return np.diff(cumulative((sums[1:] - first) / width))


def median(values: npt.NDArray[np.float64] | Ints) -> float:
    """As numpy's, which takes ten times as long for few numbers; of no numbers nan."""
    if not len(values):
        return float("nan")
    upper = len(values) // 2
    lower = upper - 1 + len(values) % 2
    parted = np.partition(values, (lower, upper))
    return float((parted.item(lower) + parted.item(upper)) / 2)
