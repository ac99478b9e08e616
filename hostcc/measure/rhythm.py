"""Iterations told apart by silence where something else is sent all the time.

Beside data loading and checkpoints no bin is silent, and no iteration sends as many bytes as the
next.  But a job's bursts stand out; what it computes between its exchanges takes as long every
time; and another job in the link, or a late worker, delays a part of an exchange without changing
its bytes.  So bursts are cut out above the background, and silences are looked for that are
equally long, with equal exchanges between them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from hostcc.measure.exchanges import take_turns
from hostcc.measure.series import Floats, Ints, cumulative, median

LEVELS = 64
"""Rates that are tried to tell bursts from the background."""
HIGHEST = 0.98
"""Share of the bins below the highest rate that is tried."""
ABOVE = (0.6, 0.3, 1.0)
"""Bins above so much of the rate that divides best are of a burst: some are sent slowly, and some
backgrounds are high."""
SMALL = 0.1
"""Bursts with less than so much of a usual burst's bytes are of the background."""
SHORTEST = 1.5
"""Bins of the shortest silence that may be one of computing."""
FEWEST = 7
"""Silences without which nothing is said."""
TRIED, STEP = 8, 1.05
"""Lengths of silences that are tried, and how many times as long as the next shorter one is the
shortest silence of such a length."""
EQUAL, EDGE = 0.06, 0.3
"""Bytes and silences that differ by so much from the usual are equal; so do silences that differ by
so many bins."""
PIECES = 3
"""Parts that a late worker may have divided an exchange into."""
BREAK_LENGTH, BREAK_WIDTH, FEWEST_BREAKS = 1.4, 0.1, 4
"""Silences so many times as long as usual, half of which differ by so little, are breaks."""
LONGER = 0.5
"""A longer silence is preferred that is at least so much as likely."""
ENOUGH = 0.8
"""When what is found is so likely no other level is tried."""
LEAST = 0.02
"""Widths below it are all the same."""
OF_EVEN, OF_SAME, OF_SILENCES, OF_INTERVALS = 2.3, 4.3, -1.1, -1.9
OF_PARTS, OF_NOTHING = -5.2, -10.5
"""How likely exchanges are iterations: the logistic function of the share of their silences that
are equal, of that of their sizes, of the logarithms of how much the better half of silences and of
intervals differ, and of whether they take turns or have breaks; fitted to generated series
(docs/measure-period.md)."""
UNLIKELY = -1.5
"""Below it nothing else is asked."""


class Rhythm(NamedTuple):
    """Exchanges that come again."""

    starts: Floats
    """The middle of the silence before each, bins, shape (k,)."""
    interval: float
    """Median, bins."""
    likely: float
    """How likely it is that these are a job's iterations; 0 to 1."""


@dataclass(frozen=True, eq=False)
class Bursts:
    """What stands out of the background; shape (k,) each."""

    begins: Floats
    """Bins, not whole ones."""
    ends: Floats
    sent: Floats
    """Bytes above the background."""


def rhythm(values: Floats) -> Rhythm | None:
    """The exchanges above the background that are most likely iterations; None without any.

    `values`: bytes per bin, shape (n,).
    """
    level = dividing(values)
    best: Rhythm | None = None
    seen: set[int] = set()
    for share in ABOVE:
        high = values > share * level
        count = int(np.count_nonzero(high))
        if count in seen:  # where nothing but bursts is sent the level does not matter
            continue
        seen.add(count)
        found = _within(bursts(values, high)) if 0 < count < len(values) else None
        if found is not None and (best is None or found.likely > best.likely):
            best = found
            if best.likely >= ENOUGH:
                break
    return best


def dividing(values: Floats) -> float:
    """The rate that divides bins into high and low ones with the least variance within both (Otsu).

    Bytes per bin, as `values` are; 0 where nothing is sent.
    """
    highest = float(np.quantile(values, HIGHEST))
    if highest <= 0:
        return 0.0
    levels = np.minimum(values * (LEVELS / highest), LEVELS - 1).astype(np.int64)
    share = np.bincount(levels, minlength=LEVELS) / len(values)
    below, amount = np.cumsum(share), np.cumsum(share * (np.arange(LEVELS) + 0.5))
    apart = (amount[-1] * below - amount)[:-1] ** 2 / np.maximum((below * (1 - below))[:-1], 1e-9)
    return float(1 + apart.argmax()) * highest / LEVELS


def bursts(values: Floats, high: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Bursts:
    """The bursts of a series; `high`: which bins are of one, not all and not none.  Shape (n,)."""
    edges = np.flatnonzero(np.diff(np.concatenate(((False,), high, (False,))).astype(np.int8)))
    first, last = edges[::2], edges[1::2]
    above = values - median(values[~high])
    sums = cumulative(above)
    sent = sums[last] - sums[first]
    ordered = np.sort(sent)
    usual = ordered[np.searchsorted(np.cumsum(ordered), ordered.sum() / 2)]
    kept = sent >= SMALL * usual
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


def _within(found: Bursts) -> Rhythm | None:
    """The likeliest rhythm of bursts."""
    silences = found.begins[1:] - found.ends[:-1]
    if len(silences) < FEWEST:
        return None
    order = np.argsort(-silences, kind="stable")
    sums = cumulative(found.sent)
    tried = []
    for count in _breaks(silences[order]):
        cuts = _whole(np.sort(order[:count]), sums)
        if len(cuts) >= FEWEST:
            tried.append(_separated(found.ends[cuts], silences[cuts], sums[cuts + 1]))
    if not tried:
        return None
    best = max(one.likely for one in tried)
    return next(one for one in tried if one.likely >= LONGER * best)


def _breaks(ordered: Floats) -> list[int]:
    """How many of the longest silences to take: up to where the next one is much shorter.

    `ordered`: the silences from the longest on.  The fewest come first.
    """
    usable = ordered[: int(np.count_nonzero(ordered >= SHORTEST))]
    if len(usable) < FEWEST:
        return []
    nexts = np.append(usable[1:], ordered[len(usable)] if len(usable) < len(ordered) else 0.0)
    steps = (usable / np.maximum(nexts, SHORTEST / 2))[FEWEST - 1 :]
    clear = np.flatnonzero(steps >= STEP)
    return sorted((clear[np.argsort(-steps[clear], kind="stable")[:TRIED]] + FEWEST).tolist())


def _whole(cuts: Ints, sums: Floats) -> Ints:
    """Without the cuts that divide an exchange, whose parts are a usual one together.

    `cuts`: after which bursts; `sums`: bytes before each burst.
    """
    sent = np.diff(sums[cuts + 1])
    usual = _best_half(sent)[0]
    least, most = (1 - EQUAL) * usual, (1 + EQUAL) * usual
    amounts: list[float] = sent.tolist()
    divided: list[int] = []
    at = 0
    while at < len(amounts):
        total, pieces = amounts[at], 1
        while total < least and pieces < PIECES and at + pieces < len(amounts):
            total += amounts[at + pieces]
            pieces += 1
        if pieces > 1 and least <= total <= most and max(amounts[at : at + pieces]) < least:
            divided += range(at + 1, at + pieces)
            at += pieces
        else:
            at += 1
    return np.delete(cuts, divided) if divided else cuts


def _separated(ends: Floats, silences: Floats, before: Floats) -> Rhythm:
    """What exchanges that end at `ends`, with `silences` after them, are like.

    `before`: bytes until each end.
    """
    intervals, sent = np.diff(ends), np.diff(before)
    usual, unequal = _best_half(silences)
    size = _best_half(sent)[0]
    even = np.abs(silences - usual) <= max(EQUAL * usual, EDGE)
    weight = (
        OF_EVEN * float(even.mean())
        + OF_SAME * float((np.abs(sent - size) <= EQUAL * size).mean())
        + OF_SILENCES * math.log(unequal + LEAST)
        + OF_INTERVALS * math.log(_best_half(intervals)[1] + LEAST)
        + OF_NOTHING
    )
    if weight > UNLIKELY:
        several = (take_turns(one, of) for one in (sent, silences, intervals) for of in (2, 3))
        weight += OF_PARTS * (_has_breaks(silences, usual) or any(several))
    likely = 1 / (1 + math.exp(-weight))
    return Rhythm(ends + silences / 2, median(intervals), likely)


def _has_breaks(silences: Floats, usual: float) -> bool:
    """Whether some silences are longer than usual, most of them by as much: they end something
    longer.  Late workers are never late by as much."""
    longer = silences[silences > BREAK_LENGTH * usual]
    return len(longer) >= FEWEST_BREAKS and _best_half(longer)[1] <= BREAK_WIDTH


def _best_half(values: Floats) -> tuple[float, float]:
    """The median of the narrowest range that holds half of the values; its width over that."""
    ordered = np.sort(values)
    half = len(ordered) // 2
    widths = ordered[half:] - ordered[: len(ordered) - half]
    least = int(widths.argmin())
    middle = float(ordered[least + half // 2] + ordered[least + (half + 1) // 2]) / 2
    return middle, float(widths[least]) / max(middle, 1e-9)
