"""Iterations found by cutting a series at silences: the one segmentation that needs no period.

A job computes for as long in every iteration, and sends as many bytes.  Another job on the link,
or a late worker, stretches or divides an exchange, but changes neither.  So bursts are separated
from the background, and cut into exchanges at silences of several least lengths.  Two criteria
choose among these: equal silences and intervals (`rhythm`), or equal bytes (`exchanges`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from hostcc.measure.series import Floats, Ints, cumulative, median
from hostcc.measure.spectrum import detrended

RATES = 64
"""Rates that are tried to tell bursts from the background."""
HIGHEST = 0.98
"""Share of the bins below the highest rate that is tried."""
LEVELS = (0.6, 0.3, 1.0)
"""Multiples of the dividing rate above which a bin is of a burst: some bursts are sent slowly, and
some backgrounds are high."""
SMALL_BURST = 0.1
"""Bursts with less than this fraction of a usual burst's bytes are of the background."""
SILENT = 0.02
"""Where all bytes count, a bin is silent below this fraction of the 90th percentile of the rates
above the floor."""
MIN_SILENCE_BINS = 1.5
"""Bins of the shortest silence that may be one of computing."""
MIN_SILENCES = 7
"""Silences without which nothing is said."""
MAX_LENGTHS, MIN_STEP = 8, 1.05
"""Least lengths of a silence that are tried, and how many times as long as the next shorter silence
the shortest one of such a length is."""
EQUAL, EQUAL_BINS = 0.06, 0.3
"""Bytes and silences that differ by at most this fraction from the usual are equal; so are silences
that differ by at most this many bins."""
MAX_PIECES = 3
"""Parts that a long pause, as of a late worker, may have divided an exchange into."""
MIN_BREAKS, BREAK_LENGTH, BREAK_WIDTH = 4, 1.4, 0.1
"""At least this many silences that are longer than usual by the first factor, the better half of
them within the second fraction of each other, are breaks."""
TURN, NO_TURN = 0.5, 0.003
"""Values take turns when they differ from those of the same turn by less than the first fraction of
what they differ from the next by; fractions of the median below the second are no difference."""
LONGER_AT, LONGER_EQUAL_AT = 0.5, 0.93
"""A longer silence is preferred from this fraction of the best probability on; the second, of the
best share of bytes in exchanges of equal size."""
SUFFICIENT_PROBABILITY = 0.8
"""When exchanges are so likely iterations, no other level is tried."""
MIN_WIDTH = 0.02
"""Widths below it are all the same."""
LOGIT_SILENCES, LOGIT_SIZES, LOGIT_SILENCE_WIDTH, LOGIT_INTERVAL_WIDTH = 2.3, 4.3, -1.1, -1.9
LOGIT_PARTS, LOGIT_BIAS = -5.2, -10.5
"""How likely exchanges are iterations: the logistic function of the share of their silences that
are equal, of that of their sizes, of the logarithms of the widths of the better half of silences
and of intervals, and of whether they are parts of iterations; fitted to generated series
(docs/internals/measure-period.md)."""
LOGIT_HOPELESS = -1.5
"""Below it nothing else is asked."""
MIN_SHARE, MAX_SILENCE_SPREAD, MAX_INTERVAL_SPREAD = 0.75, 0.12, 0.4
"""Bounds of `Exchanges.share` and of the spreads for iterations that are equal in size: computing
takes as long every time."""


class Rhythm(NamedTuple):
    """Exchanges that come at equal intervals."""

    starts: Floats
    """The middle of the silence before each, bins, shape (k,)."""
    interval: float
    """Median, bins."""
    likely: float
    """How likely it is that these are a job's iterations; 0 to 1."""


@dataclass(frozen=True, eq=False)
class Exchanges:
    """Exchanges that send the same, however long each takes."""

    starts: Floats
    """The middle of the silence before each, bins, shape (k,)."""
    intervals: Floats
    """From one to the next, bins, also where one of them is beyond an end of the series because the
    exchange there is whole all the same."""
    share: float
    """Share of the bytes above the floor that is in exchanges of equal size; 0 to 1."""
    silence_spread: float
    """How much the silences differ: half the range of their middle half, over their median."""
    spread: float
    """The same of the intervals."""
    parts: bool
    """Whether they are parts of iterations: they take turns, or have breaks now and then."""

    def plausible(self, share: float = MIN_SHARE) -> bool:
        """Whether these are a job's iterations: nearly all bytes, computing as long each time."""
        even = self.silence_spread <= MAX_SILENCE_SPREAD and self.spread <= MAX_INTERVAL_SPREAD
        return even and not self.parts and self.share >= share


@dataclass(frozen=True, eq=False)
class Bursts:
    """What stands out of the background; shape (k,) each."""

    begins: Floats
    """Bins, not whole ones."""
    ends: Floats
    sent: Floats
    """Bytes above the background."""


@dataclass(frozen=True, eq=False)
class _Cuts:
    """A series cut at silences of some length."""

    of: Bursts
    sums: Floats
    """Bytes before each burst, shape (bursts + 1,)."""
    after: Ints
    """After which bursts, shape (k,)."""
    numbers: Ints
    """Exchanges of equal size between each two, shape (k - 1,); 0 where there is another amount."""
    size: float
    """Bytes of one of these."""
    share: float
    """Share of the bytes that is in them."""

    @property
    def ends(self) -> Floats:
        """Where the silences begin, bins."""
        return self.of.ends[self.after]

    @property
    def silences(self) -> Floats:
        """Their lengths, bins."""
        return self.of.begins[self.after + 1] - self.ends

    @property
    def sent(self) -> Floats:
        """Bytes between each two."""
        return np.diff(self.sums[self.after + 1])


def rhythm(values: Floats) -> Rhythm | None:
    """The exchanges that are most likely iterations; None without any.

    `values`: bytes per bin, shape (n,).
    """
    level = dividing(values)
    best: Rhythm | None = None
    seen: set[int] = set()
    for share in LEVELS:
        high = values > share * level
        count = int(np.count_nonzero(high))
        if count in seen:  # where nothing but bursts is sent the level does not matter
            continue
        seen.add(count)
        cuts = _cut(bursts(values, high)) if 0 < count < len(values) else []
        found = _most_regular(cuts)
        if found is not None and (best is None or found.likely > best.likely):
            best = found
            if best.likely >= SUFFICIENT_PROBABILITY:
                break
    return best


def exchanges(values: Floats) -> Exchanges | None:
    """The exchanges that are most equal in size; None where there are too few.

    `values`: bytes per bin, shape (n,).  Every byte counts, so that only what is hardly more than
    the floor is silent.
    """
    above = detrended(values)
    if not above.any():
        return None
    high = above > SILENT * float(np.quantile(above[above > 0], 0.9))
    return None if high.all() else _most_equal(_cut(bursts(values, high, least=0.0)))


def dividing(values: Floats) -> float:
    """The rate that divides bins into high and low ones with the least variance within both (Otsu).

    Bytes per bin, as `values` are; 0 where nothing is sent.
    """
    highest = float(np.quantile(values, HIGHEST))
    if highest <= 0:
        return 0.0
    rates = np.minimum(values * (RATES / highest), RATES - 1).astype(np.int64)
    share = np.bincount(rates, minlength=RATES) / len(values)
    below, amount = np.cumsum(share), np.cumsum(share * (np.arange(RATES) + 0.5))
    apart = (amount[-1] * below - amount)[:-1] ** 2 / np.maximum((below * (1 - below))[:-1], 1e-9)
    return float(1 + apart.argmax()) * highest / RATES


def bursts(
    values: Floats, high: np.ndarray[tuple[int], np.dtype[np.bool_]], least: float = SMALL_BURST
) -> Bursts:
    """The bursts of a series; `high`: which bins are of one, not all and not none.  Shape (n,).

    Those with less than `least` of a usual burst's bytes are left out.
    """
    edges = np.flatnonzero(np.diff(np.concatenate(((False,), high, (False,))).astype(np.int8)))
    first, last = edges[::2], edges[1::2]
    above = values - median(values[~high])
    sums = cumulative(above)
    sent = sums[last] - sums[first]
    ordered = np.sort(sent)
    usual = ordered[np.searchsorted(np.cumsum(ordered), ordered.sum() / 2)]
    kept = sent >= least * usual
    first, last = first[kept], last[kept]
    # What is in the bins at an edge says when the burst began, at its own rate.
    padded = np.concatenate(((0.0,), np.maximum(above, 0.0), (0.0,)))
    long = last - first >= 3
    either = np.maximum(padded[first + 1], padded[last])
    rate_first = np.where(long, padded[first + 2], either)
    rate_last = np.where(long, padded[last - 1], either)
    begins = first + 1 - np.minimum((padded[first] + padded[first + 1]) / rate_first, 2.0)
    ends = last - 1 + np.minimum((padded[last] + padded[last + 1]) / rate_last, 2.0)
    wider = sums[np.minimum(last + 1, len(values))] - sums[np.maximum(first - 1, 0)]
    return Bursts(begins, np.maximum(ends, begins), wider)


def _cut(of: Bursts) -> list[_Cuts]:
    """At silences of several least lengths, the longest first."""
    silences = of.begins[1:] - of.ends[:-1]
    order = np.argsort(-silences, kind="stable")
    sums = cumulative(of.sent)
    every = (_joined(of, sums, np.sort(order[:count])) for count in _lengths(silences[order]))
    return [cuts for cuts in every if len(cuts.after) >= MIN_SILENCES]


def _lengths(ordered: Floats) -> list[int]:
    """How many of the longest silences to take: up to where the next one is much shorter.

    `ordered`: the silences from the longest on.  The fewest come first.
    """
    usable = ordered[: int(np.count_nonzero(ordered >= MIN_SILENCE_BINS))]
    if len(usable) < MIN_SILENCES:
        return []
    nexts = np.append(usable[1:], ordered[len(usable)] if len(usable) < len(ordered) else 0.0)
    steps = (usable / np.maximum(nexts, MIN_SILENCE_BINS / 2))[MIN_SILENCES - 1 :]
    clear = np.flatnonzero(steps >= MIN_STEP)
    longest = clear[np.argsort(-steps[clear], kind="stable")[:MAX_LENGTHS]]
    return sorted((longest + MIN_SILENCES).tolist())


def _joined(of: Bursts, sums: Floats, after: Ints) -> _Cuts:
    """Cuts after these bursts, without those that divide an exchange."""
    sent = np.diff(sums[after + 1])
    size = _better_half(sent)[0]
    numbers, kept, at = [], [0], 0
    for number, pieces in _grouped(sent.tolist(), size):
        at += pieces
        numbers.append(number)
        kept.append(at)
    covered = sum(numbers) * size / max(float(sent.sum()), 1e-300)
    return _Cuts(of, sums, after[kept], np.array(numbers, np.int64), size, min(1.0, covered))


def _grouped(sent: list[float], size: float) -> list[tuple[int, int]]:
    """(exchanges, pieces) of consecutive stretches: pieces that are one exchange together, a
    piece that is several; 0 exchanges where it is neither."""
    found: list[tuple[int, int]] = []
    at = 0
    while at < len(sent):
        number, pieces, total = 0, 0, 0.0
        for piece in sent[at : at + MAX_PIECES]:
            pieces += 1
            total += piece
            number = round(total / size) if size > 0 else 0
            if number and abs(total - number * size) <= EQUAL * size:
                break
            number = 0
            if total > size:
                break
        found.append((number, pieces if number else 1))
        at += pieces if number else 1
    return found


def _most_regular(cuts: list[_Cuts]) -> Rhythm | None:
    tried = [(one, _likely(one)) for one in cuts]
    best = max((likely for _, likely in tried), default=0.0)
    for one, likely in tried:
        if likely >= LONGER_AT * best:
            return Rhythm(one.ends + one.silences / 2, median(np.diff(one.ends)), likely)
    return None


def _likely(cuts: _Cuts) -> float:
    """How likely it is that what lies between cuts are iterations; 0 to 1."""
    silences, sent = cuts.silences, cuts.sent
    usual, width = _better_half(silences)
    even = np.abs(silences - usual) <= max(EQUAL * usual, EQUAL_BINS)
    weight = (
        LOGIT_SILENCES * float(even.mean())
        + LOGIT_SIZES * float((np.abs(sent - cuts.size) <= EQUAL * cuts.size).mean())
        + LOGIT_SILENCE_WIDTH * math.log(width + MIN_WIDTH)
        + LOGIT_INTERVAL_WIDTH * math.log(_better_half(np.diff(cuts.ends))[1] + MIN_WIDTH)
        + LOGIT_BIAS
    )
    if weight > LOGIT_HOPELESS:
        weight += LOGIT_PARTS * _are_parts(cuts)
    return 1 / (1 + math.exp(-weight))


def _are_parts(cuts: _Cuts) -> bool:
    """Whether what lies between cuts are parts of iterations: they take turns, or have breaks."""
    values = (cuts.sent, cuts.silences, np.diff(cuts.ends))
    return _has_breaks(cuts.silences) or any(
        take_turns(one, parts) for one in values for parts in (2, 3)
    )


def _has_breaks(silences: Floats) -> bool:
    """Whether some silences are longer than usual, most of them by as much: they end something
    longer.  Late workers are never late by as much."""
    longer = silences[silences > BREAK_LENGTH * _better_half(silences)[0]]
    return len(longer) >= MIN_BREAKS and _better_half(longer)[1] <= BREAK_WIDTH


def take_turns(values: Floats, parts: int) -> bool:
    """Whether a value is like that `parts` later rather than like those in between."""
    if len(values) < 4 * parts + 3:  # among fewer, some do by chance
        return False
    away = [median(np.abs(values[step:] - values[:-step])) for step in range(1, parts + 1)]
    return away[-1] + NO_TURN * median(values) < TURN * min(away[:-1])


def _most_equal(tried: list[_Cuts]) -> Exchanges | None:
    """The exchanges most of whose bytes are in some of equal size, by the longest silence."""
    tried = [one for one in tried if np.count_nonzero(one.numbers) >= MIN_SILENCES - 1]
    if not tried:
        return None
    least = LONGER_EQUAL_AT * max(one.share for one in tried)
    best = min((one for one in tried if one.share >= least), key=lambda one: len(one.after))
    silences, size = best.silences, best.size
    half = median(silences) / 2
    places = _split(best) + half
    # Exchanges at the ends of the series count when they are whole.
    before, after = best.sums[best.after[0] + 1], best.sums[-1] - best.sums[best.after[-1] + 1]
    ahead = best.of.begins[:1] - half if abs(before - size) <= EQUAL * size else places[:0]
    behind = best.of.ends[-1:] + half if abs(after - size) <= EQUAL * size else places[:0]
    intervals = np.diff(np.concatenate((ahead, places, behind)))
    return Exchanges(
        starts=places,
        intervals=intervals,
        share=best.share,
        silence_spread=_spread(silences),
        spread=_spread(intervals),
        parts=_are_parts(best),
    )


def _split(cuts: _Cuts) -> Floats:
    """Where exchanges end, also those that no long silence separates from the next, bins.

    Where bytes say that one ends, the longest pause nearby is where it does.
    """
    found: list[float] = [float(cuts.ends[0])]
    for first, last, number in zip(cuts.after, cuts.after[1:], cuts.numbers.tolist(), strict=False):
        sums = cuts.sums[first + 2 : last + 1] - cuts.sums[first + 1]  # after each but the last
        share = sums / (cuts.sums[last + 1] - cuts.sums[first + 1]) * number
        begins, ends = cuts.of.begins[first + 1 : last + 1], cuts.of.ends[first + 1 : last + 1]
        for step in range(1, number):
            near = np.flatnonzero(np.abs(share - step) <= EQUAL)
            if len(near):
                found.append(float(ends[near[int((begins[1:] - ends[:-1])[near].argmax())]]))
            else:  # it ends within a burst
                within = np.interp(step, np.append(share, number), ends)
                found.append(float(max(within, found[-1])))
        found.append(float(cuts.of.ends[last]))
    return np.array(found)


def _spread(values: Floats) -> float:
    low, middle, high = (float(one) for one in np.quantile(values, (0.25, 0.5, 0.75)))
    return (high - low) / 2 / max(middle, 1e-9)


def _better_half(values: Floats) -> tuple[float, float]:
    """The median of the narrowest range that holds half of the values; its width over that."""
    ordered = np.sort(values)
    half = len(ordered) // 2
    widths = ordered[half:] - ordered[: len(ordered) - half]
    least = int(widths.argmin())
    middle = float(ordered[least + half // 2] + ordered[least + (half + 1) // 2]) / 2
    return middle, float(widths[least]) / max(middle, 1e-9)
