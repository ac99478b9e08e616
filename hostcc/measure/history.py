"""A long series of bins in little memory: packed in pieces, each unpacked when it is read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hostcc.measure.cells import Cells, chained
from hostcc.measure.packed import (
    MOST_PLACES,
    Packed,
    alike,
    last_place,
    listed,
    packed,
    packed_at,
    unpack,
)
from hostcc.measure.series import (
    NS,
    Bins,
    ByteSeries,
    Floats,
    Ints,
    joined,
    part,
    rebinned,
    silence,
)

PIECE = 2048
"""Bins of a piece.  What comes is added to the last one until it is full, which is packed anew
each time: shorter ones cost less to fill, longer ones less to keep and to unpack.  Of bins that
are mostly empty a piece has as many as come at once."""
_NONE: Ints = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class Piece:
    """Bins that follow one another."""

    tx: Packed
    rx: Packed

    def __len__(self) -> int:
        return self.tx.count


@dataclass(frozen=True, eq=False)
class History:
    """The same as a ByteSeries; it never changes, and shares pieces with those it came from."""

    bin_ns: int
    """Length of a bin, nanoseconds, above 0."""
    start_ns: int
    """Of the first bin, nanoseconds on the clock of whoever measured."""
    pieces: tuple[Piece, ...] = ()
    skipped: int = 0
    """Bins of the first piece that are no longer part of this; fewer than it has."""

    def __len__(self) -> int:
        return sum(map(len, self.pieces)) - self.skipped

    @property
    def bin_s(self) -> float:
        """Length of a bin, seconds."""
        return self.bin_ns / NS

    @property
    def end_ns(self) -> int:
        """Where the last bin ends."""
        return self.start_ns + len(self) * self.bin_ns

    @property
    def tx(self) -> Ints:
        """Sent, shape (n,), none negative."""
        return _joined([piece.tx for piece in self.pieces], 0, _NONE)[self.skipped :]

    @property
    def rx(self) -> Ints:
        """Received, shape (n,)."""
        return _joined([piece.rx for piece in self.pieces], 0, _NONE)[self.skipped :]

    @property
    def total(self) -> Floats:
        """Bytes in both directions, shape (n,)."""
        return self.whole().total

    @property
    def size(self) -> int:
        """Bytes of memory that the numbers take, but for the objects that hold them."""
        return sum(len(piece.tx.data) + len(piece.rx.data) for piece in self.pieces)

    def whole(self) -> ByteSeries:
        """All of it, unpacked."""
        return ByteSeries(self.bin_ns, self.start_ns, self.tx, self.rx)

    def part(self, begin: int, end: int | None = None) -> ByteSeries:
        """Bins begin to end, as a slice would choose them; only their pieces are unpacked."""
        first, last, _ = slice(begin, end).indices(len(self))
        pieces, before = self._from(first)
        tail = History(self.bin_ns, self.start_ns + first * self.bin_ns, pieces, before)
        return part(tail.whole(), 0, max(0, last - first))

    def cells(self, begin: int) -> Cells:
        """Bins from `begin` on, of at least so many, without those that are empty."""
        pieces, before = self._from(begin)
        if not pieces:
            return _no_cells(self)
        found = chained(_cells(pieces, self.bin_ns, self.end_ns))
        return found.between(before, len(found))

    def quiet(self, begin: int) -> bool:
        """Whether all bins from `begin` on are empty, as far as can be told without unpacking."""
        pieces, before = self._from(begin)
        if len(pieces) > 1:
            return False
        last = [last_place(way) for piece in pieces for way in (piece.tx, piece.rx)]
        return all(place is not None and place < before for place in last)

    def since(self, begin: int) -> History:
        """What is left without the first `begin` bins, of at least so many."""
        pieces, skipped = self._from(begin)
        return History(self.bin_ns, self.start_ns + begin * self.bin_ns, pieces, skipped)

    def longer(self, new: Bins) -> History:
        """With bins that come after the last one; bins that nobody measured are 0.

        Raises ValueError when they do not fit.
        """
        if not len(self):
            return history(new)
        silent = silence(self.bin_ns, self.end_ns, new)
        kept, last = self.pieces, self.pieces[:0]
        if len(kept[-1]) < PIECE:
            kept, last = kept[:-1], kept[-1:]
        if isinstance(new, Cells) and new.few:
            before = _cells(last, self.bin_ns, self.end_ns)
            if not before and silent:
                before = [_no_cells(self)]
            return replace(self, pieces=(*kept, *_few(chained([*before, new]))))
        new = new.whole()
        tx = _joined([one.tx for one in last], silent, new.tx)
        rx = _joined([one.rx for one in last], silent, new.rx)
        return replace(self, pieces=(*kept, *_pieces(tx, rx)))

    def _from(self, begin: int) -> tuple[tuple[Piece, ...], int]:
        """The pieces from a bin on, and how many bins of the first one are before it."""
        pieces, before = self.pieces, begin + self.skipped
        while pieces and before >= len(pieces[0]):
            before -= len(pieces[0])
            pieces = pieces[1:]
        return pieces, before


def history(of: Bins) -> History:
    """A series, packed."""
    if isinstance(of, Cells) and of.few:
        return History(of.bin_ns, of.start_ns, tuple(_few(of)))
    bins = of.whole()
    return History(of.bin_ns, of.start_ns, tuple(_pieces(bins.tx, bins.rx)))


def _no_cells(after: History) -> Cells:
    return Cells(after.bin_ns, after.end_ns, 0, _NONE, _NONE, _NONE)


def _few(of: Cells) -> Iterator[Piece]:
    """Pieces of bins that are mostly empty."""
    for first in range(0, len(of), MOST_PLACES):
        one = of if len(of) <= MOST_PLACES else of.between(first, min(len(of), first + MOST_PLACES))
        yield Piece(
            packed_at(len(one), one.at, one.sent), packed_at(len(one), one.at, one.received)
        )


def _cells(pieces: Sequence[Piece], bin_ns: int, end_ns: int) -> list[Cells]:
    """What pieces hold, the last of which ends at a moment."""
    found: list[Cells] = []
    for one in reversed(pieces):
        (at, sent), (others, received) = listed(one.tx), listed(one.rx)
        if not one.rx.width:
            received = np.zeros(len(at), np.int64)
        elif not one.tx.width:
            at, sent = others, np.zeros(len(others), np.int64)
        elif not alike(one.tx, one.rx):
            every = np.union1d(at, others)
            tx, rx = np.zeros((2, len(every)), np.int64)
            tx[np.searchsorted(every, at)] = sent
            rx[np.searchsorted(every, others)] = received
            at, sent, received = every, tx, rx
        end_ns -= len(one) * bin_ns
        found.append(Cells(bin_ns, end_ns, len(one), at, sent, received))
    return found[::-1]


def _pieces(tx: Ints, rx: Ints) -> Iterator[Piece]:
    for at in range(0, len(tx), PIECE):
        yield Piece(packed(tx[at : at + PIECE]), packed(rx[at : at + PIECE]))


def _joined(parts: Sequence[Packed], silent: int, new: Ints) -> Ints:
    """What is packed, a silence, and what is not, one after the other."""
    count = sum(one.count for one in parts)
    found, at = np.zeros(count + silent + len(new), np.int64), 0
    for one in parts:
        unpack(one, found[at : at + one.count])
        at += one.count
    found[count + silent :] = new
    return found


def extended(levels: tuple[History, ...], new: Bins, step: int) -> tuple[History, ...]:
    """The same bins in several lengths, with new ones; `step`: bins that make one of the next.

    Raises ValueError when they do not come after the last ones.
    """
    before, finer, added = levels[0], levels[0].longer(new), new
    longer = [finer]
    for level in levels[1:]:
        base = level if len(level) else History(level.bin_ns, finer.start_ns)
        fresh = _ungrouped(base.end_ns, before, finer, added)
        added = fresh.coarser(step) if isinstance(fresh, Cells) else rebinned(fresh.whole(), step)
        before, finer = base, base.longer(added) if len(added) else base
        longer.append(finer)
    return tuple(longer)


def cut(levels: tuple[History, ...], kept: int) -> tuple[History, ...]:
    """The levels with their last `kept` bins only."""
    if all(len(level) <= kept for level in levels):
        return levels
    return tuple(level.since(max(0, len(level) - kept)) for level in levels)


def _ungrouped(since_ns: int, before: History, finer: History, added: Bins) -> Bins:
    """The bins of a level from a moment on; it is `finer`, and was `before`."""
    first = max(0, since_ns - finer.start_ns) // finer.bin_ns
    left = len(before) - first
    if isinstance(added, Cells):
        if added.start_ns == since_ns:
            return added
        if left > 0 and before.end_ns == added.start_ns and before.quiet(first):
            return added.preceded(left)
        return finer.cells(first)
    if left < 0 or len(finer) != len(before) + len(added):
        return part(finer, first)
    # The others are at hand: they need not be unpacked.
    return joined(part(before, first), added.whole())
