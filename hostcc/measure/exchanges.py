"""Iterations told apart by silence and recognised by their bytes, however long each takes.

What a job exchanges in an iteration is the same every time, even where the network lets it be
sent at another pace and with other pauses each time, so that nothing of its shape comes again.
Silences of computation are longer than the pauses within an exchange; how long they have to be
is what is looked for here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hostcc.measure.series import Floats, Ints, cumulative, median
from hostcc.measure.spectrum import tamed

FEWEST = 6
"""Exchanges of equal size without which nothing is said."""
EQUAL = 0.06
"""Sizes that differ by so much from the median are equal."""
SHORTEST = 3
"""Bins of the shortest silence that is tried."""
TRIED = 24
"""Lengths of silences that are tried."""
MOST_PIECES = 3
"""So many pieces may an exchange have been cut into by a pause as long as such a silence."""
SAME = 0.93
"""A longer silence is preferred while so much of the best share is of equal size."""
LEAST_SHARE, PAUSES, INTERVALS = 0.75, 0.12, 0.4
"""Bounds of `share`, `pauses` and `spread` for iterations: computing takes as long every time."""
TURN, NO_TURN = 0.5, 0.003
"""Values take turns when they differ from those of the same turn by so much of what they differ
from the next by; differences of so much of the median are none."""
BREAK, RARE = 2.0, 0.08
"""Silences so many times as long as most, at least such a share of all, end something longer."""
SILENT = 0.02
"""A bin is silent below so much of the rate that the busiest tenth of them exceeds."""


@dataclass(frozen=True, eq=False)
class Exchanges:
    """The exchanges that silences of some length separate."""

    starts: Floats
    """Where each exchange's silence is half over, bins, shape (k,)."""
    intervals: Floats
    """From one to the next, also where one of them is beyond an end of the series because the
    exchange there is whole all the same, bins."""
    size: float
    """Bytes of one."""
    share: float
    """Part of the bytes that is in exchanges of that size; 0 to 1."""
    pauses: float
    """How much the silences differ: half the range of their middle half, over their median."""
    spread: float
    """The same of the intervals from one exchange to the next."""
    parts: bool
    """Whether they are parts of something longer: they take turns, or have breaks now and then."""

    def plausible(self, share: float = LEAST_SHARE) -> bool:
        """Whether these are a job's iterations: nearly all bytes, computing as long each time."""
        alike = self.pauses <= PAUSES and self.spread <= INTERVALS and not self.parts
        return alike and self.share >= share


def exchanges(values: Floats) -> Exchanges | None:
    """The exchanges of a series that are most alike in size; None where there are too few.

    `values`: bytes per bin, shape (n,).
    """
    above = tamed(values)
    if not above.any():
        return None
    busy = np.flatnonzero(above > SILENT * float(np.quantile(above[above > 0], 0.9)))
    pauses = np.diff(busy)
    longest = int(pauses.max(initial=0))
    if longest <= SHORTEST:
        return None
    sums = cumulative(values)
    lengths = np.unique(np.geomspace(SHORTEST, longest, TRIED).astype(np.int64))
    # Of lengths that separate the same exchanges, the longest.
    kept = {int(np.count_nonzero(pauses > length)): length for length in lengths.tolist()}
    tried = [_separated(sums, busy, pauses, length) for length in sorted(kept.values())]
    found = [one for one in tried if one is not None]
    if not found:
        return None
    best = max(one.share for one in found)
    return _measured(sums, busy, pauses, [one for one in found if one.share >= SAME * best][-1])


@dataclass(frozen=True, eq=False)
class _SilenceSplit:
    """What silences of some length separate: enough to choose the length by."""

    cuts: Ints
    """Which of the pauses are such silences."""
    sent: Floats
    """Bytes between them."""
    size: float
    """Of one exchange."""
    numbers: list[tuple[int, int]]
    """As from `_numbers`."""
    share: float
    """Part of the bytes that is in exchanges of that size."""


def _separated(sums: Floats, busy: Ints, pauses: Ints, length: int) -> _SilenceSplit | None:
    """By silences of `length` bins and longer; what is before the first and after the last of
    them may be a part of an exchange, and does not count."""
    cuts = np.flatnonzero(pauses > length)
    if len(cuts) <= FEWEST:
        return None
    sent = np.diff(sums[busy[cuts] + 1])
    size = median(sent)
    if size <= 0:
        return None
    numbers = _numbers(sent.tolist(), size)
    if sum(number > 0 for number, _ in numbers) < FEWEST:
        return None
    covered = sum(number for number, _ in numbers) * size
    return _SilenceSplit(cuts, sent, size, numbers, min(1.0, covered / float(sent.sum())))


def _measured(sums: Floats, busy: Ints, pauses: Ints, of: _SilenceSplit) -> Exchanges:
    """The exchanges one by one; those at the ends of the series count when they are whole."""
    cuts, size = of.cuts, of.size
    ends = busy[cuts] + 1
    starts, at = [float(ends[0])], 0
    for number, pieces in of.numbers:
        first, at = int(cuts[at]) + 1, at + pieces
        starts += _inner(sums, busy[first : int(cuts[at]) + 1], number)
        starts.append(float(ends[at]))
    silences = pauses[cuts].astype(np.float64) - 1.0
    took = np.diff(ends).astype(np.float64) - silences[:-1]
    half = median(silences) / 2
    places = np.asarray(starts) + half
    before, after = float(sums[ends[0]]), float(sums[-1] - sums[ends[-1]])
    ahead = [busy[0] - half] if abs(before - size) <= EQUAL * size else []
    behind = [busy[-1] + 1 + half] if abs(after - size) <= EQUAL * size else []
    intervals = np.diff(np.concatenate((ahead, places, behind)))
    return Exchanges(
        starts=places,
        intervals=intervals,
        size=size,
        share=of.share,
        pauses=_spread(silences),
        spread=_spread(intervals),
        parts=_has_breaks(silences)
        or any(take_turns(one, parts) for one in (of.sent, silences, took) for parts in (2, 3)),
    )


def _inner(sums: Floats, busy: Ints, number: int) -> list[float]:
    """Ends of all but the last of so many exchanges that no long silence separates.

    Where bytes say that one ends, the longest pause nearby is where it does.  `busy`: bins in
    which something is sent.
    """
    if number > len(busy):
        return [float(at) for at in np.linspace(busy[0], busy[-1] + 1, number + 1)[1:-1]]
    begin, sent = sums[busy[0]], sums[busy[-1] + 1] - sums[busy[0]]
    share = (sums[busy[:-1] + 1] - begin) / sent * number
    pauses = np.diff(busy)
    found = []
    for step in range(1, number):
        near = np.flatnonzero(np.abs(share - step) <= EQUAL)
        if not len(near):  # it ends within a bin
            near = np.array([int(np.argmin(np.abs(share - step)))])
        found.append(float(busy[near[int(pauses[near].argmax())]] + 1))
    return found


def _has_breaks(silences: Floats) -> bool:
    """Whether some silences are much longer than most, all by about as much."""
    longer = silences[silences > BREAK * median(silences)]
    return len(longer) >= max(2.0, RARE * len(silences)) and _spread(longer) <= PAUSES


def _spread(values: npt.NDArray[np.floating[Any]]) -> float:
    low, middle, high = (float(one) for one in np.quantile(values, (0.25, 0.5, 0.75)))
    return (high - low) / 2 / max(middle, 1e-9)


def take_turns(values: Floats, parts: int) -> bool:
    """Whether a value is like that `parts` later rather than like those in between."""
    if len(values) < 4 * parts + 3:  # among fewer, some do by chance
        return False
    away = [median(np.abs(values[step:] - values[:-step])) for step in range(1, parts + 1)]
    return away[-1] + NO_TURN * median(values) < TURN * min(away[:-1])


def _numbers(sent: list[float], size: float) -> list[tuple[int, int]]:
    """(exchanges, pieces) of consecutive stretches: pieces that are one exchange together, a
    piece that is several; 0 exchanges where it is neither."""
    found: list[tuple[int, int]] = []
    at = 0
    while at < len(sent):
        number, pieces, total = 0, 0, 0.0
        for piece in sent[at : at + MOST_PIECES]:
            pieces += 1
            total += piece
            number = round(total / size)
            if number and abs(total - number * size) <= EQUAL * size:
                break
            number = 0
            if total > size:
                break
        found.append((number, pieces if number else 1))
        at += pieces if number else 1
    return found
