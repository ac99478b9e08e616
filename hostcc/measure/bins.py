"""Pure: where the byte meter's time bins are in its memory, and what their words mean.

The kernel side (bpf/meter.bpf.c) adds each packet to a cell in a ring of time bins.  A bin is
a power of two nanoseconds long, because a division costs more than the rest of the addition.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint64]
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]

HEADER_SHIFT = 40
"""HCC_METER_HEADER_SHIFT of bpf/meter.h; a test compares the two."""
PAYLOAD = np.uint64((1 << HEADER_SHIFT) - 1)
"""The bits of a word that are below it."""
HEADER_UNIT = 4
"""Headers are counted in words of so many bytes."""
BIN_SHIFT_MIN, BIN_SHIFT_MAX = 17, 26
"""131 us to 67 ms: beyond that a cell's headers could overflow at 10 M packets a second."""
RING_SHIFT_MIN, RING_SHIFT_MAX = 6, 14
SHARD_SHIFT_MAX = 5
SHARD_SHIFT_USUAL, DESTINATIONS = 1, 1024
"""Of the agent's ring: shards at most, and rows, all shards counted: 16 MiB, which are resident."""


@dataclass(frozen=True)
class Ring:
    """Geometry of the cells: bins x rows x shards of the CPUs."""

    rows: int
    """Row 0 is not used."""
    bin_shift: int = 20
    """A bin is 2**bin_shift nanoseconds long."""
    ring_shift: int = 10
    """So many bins, as a power of two, before the ring begins again."""
    shard_shift: int = 0
    """CPUs are spread over 2**shard_shift copies, which avoids contention for a cell."""

    def __post_init__(self) -> None:
        for name, least, greatest in (
            ("rows", 2, 1 << 20),
            ("bin_shift", BIN_SHIFT_MIN, BIN_SHIFT_MAX),
            ("ring_shift", RING_SHIFT_MIN, RING_SHIFT_MAX),
            ("shard_shift", 0, SHARD_SHIFT_MAX),
        ):
            value = getattr(self, name)
            if not least <= value <= greatest:
                raise ValueError(f"{name}: expected {least} to {greatest}, got {value}")
        if self.cells * 16 > 1 << 31:
            raise ValueError(f"expected at most 2 GiB of cells, got {self.cells * 16} bytes")

    @property
    def bins(self) -> int:
        """Bins in the ring."""
        return 1 << self.ring_shift

    @property
    def bin_ns(self) -> int:
        """Length of a bin, nanoseconds."""
        return 1 << self.bin_shift

    @property
    def shards(self) -> int:
        """Copies of each row."""
        return 1 << self.shard_shift

    @property
    def cells(self) -> int:
        """Entries of the map."""
        return self.lanes * self.bins

    @property
    def lanes(self) -> int:
        """Rows times shards: what a bin has cells for."""
        return self.rows * self.shards

    @property
    def touched_words(self) -> int:
        """Words of 64 bits, one bit a row and shard, that say which cells of a bin are in use."""
        return -(-self.lanes // 64)

    def at(self, ns: int) -> int:
        """Number of the bin that a moment (nanoseconds, CLOCK_MONOTONIC) is in."""
        return ns >> self.bin_shift

    def ceil(self, ns: int) -> int:
        """So many bins cover a length of time in nanoseconds."""
        return -(-ns // self.bin_ns)

    def shaped(self, cells: npt.NDArray[Any]) -> Words:
        """The map's memory as words of shape (bins, rows, shards, 2); a view, 2: tx, rx."""
        return cells.view(np.uint64).reshape(self.bins, self.rows, self.shards, 2)

    def shaped_touched(self, touched: Words) -> Words:
        """The map of cells in use as shape (bins, touched_words); a view."""
        return touched.reshape(self.bins, self.touched_words)


def default_ring(cpus: int) -> Ring:
    """Bins of about 1 ms, a ring of about 1 s; 16 KiB a row and shard.

    Up to 4 CPUs share one: what they lose to each other is less than reading two would cost.  More
    have two, and half as many destinations.
    """
    shift = min(SHARD_SHIFT_USUAL, max(0, (cpus - 1).bit_length() - 2))
    return Ring(rows=1 + (DESTINATIONS >> shift), shard_shift=shift)


@dataclass(frozen=True)
class Span:
    """What one reading covers, in bin numbers; `begin` to `end` is complete and was counted."""

    begin: int
    end: int
    resume: int
    """Where the next reading begins: later than `end` when bins in between were not counted."""

    @property
    def lost(self) -> int:
        """Bins in which nothing was counted, because the ring was full."""
        return self.resume - self.end


def span(begin: int, now_bin: int, settle: int, bins: int) -> Span:
    """The bins that can be read, from `begin` on.

    The last `settle` bins may still change: a program that was preempted counts late.  The
    kernel side does not write beyond `begin + bins`; what is later than that was lost.
    """
    resume = max(begin, now_bin - settle)
    return Span(begin, min(resume, begin + bins), resume)


@dataclass(frozen=True, eq=False)
class CellBatch:
    """What k cells held: those that had something, in the order of bins, then rows."""

    row: Indices
    """Shape (k,); a row and bin come twice when two shards counted them."""
    bin: Indices
    """Counted from the begin of the span; shape (k,)."""
    words: Words
    """Packed counts, shape (k, 2), the last axis tx, rx."""


def take(ring: Ring, words: Words, touched: Words, of: Span) -> CellBatch:
    """Read and empty the cells of a span that something was added to.

    `words` is Ring.shaped memory, `touched` Ring.shaped_touched; the work is proportional to
    the cells in use, since most bins of most rows are empty.
    """
    first, count = of.begin % ring.bins, of.end - of.begin
    tail = min(count, ring.bins - first)
    # Bits before cells: whoever counts late sets the bit again after its cell.
    bits = np.concatenate((touched[first : first + tail], touched[: count - tail])).reshape(-1)
    used = np.flatnonzero(bits != 0)
    bin_of, word = np.divmod(used, ring.touched_words)
    touched[(first + bin_of) % ring.bins, word] = 0
    flags = np.unpackbits(bits[used].view(np.uint8), bitorder="little")
    which, bit = np.divmod(np.flatnonzero(flags.view(np.bool_)), 64)
    at, lane = bin_of[which], word[which] * 64 + bit
    index = (first + at) % ring.bins * ring.lanes + lane
    # A cell has 16 bytes, and as one number of that size it is copied five times as fast.
    cells = words.reshape(-1).view(np.complex128)
    found = cells[index]
    cells[index] = 0
    return CellBatch(lane >> ring.shard_shift, at, found.view(np.uint64).reshape(-1, 2))


def payload(words: Words) -> Ints:
    """Bytes after the TCP or UDP header; shape as given."""
    return (words & PAYLOAD).astype(np.int64)


def payload_both(words: Words) -> Floats:
    """The same of both directions together, `words` of shape (k, 2): shape (k,)."""
    bytes_ = words & PAYLOAD
    return (bytes_[:, 0] + bytes_[:, 1]).astype(np.float64)


def headers(words: Words) -> Ints:
    """Bytes of IP and transport headers; shape as given."""
    return (words >> np.uint64(HEADER_SHIFT)).astype(np.int64) * HEADER_UNIT
