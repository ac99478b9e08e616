"""The period of a job's iterations and the bytes that each sends, from bytes over time.

The series is cut at silences (`silences`).  What is between them comes at equal intervals, or is
equal in size, or neither; then lags are looked for after which the series repeats itself
(`spectrum`).  Either way the iterations of such a length are located by `tracking`, and the first
length that explains the series counts.

Crux (SIGCOMM'24, section 5) takes the strongest frequency of the Fourier transform.  That is a
burst's, when an iteration has several, and no longer a line, when iterations are late.  Here
the transform only proposes lags; for each of them the iterations are found one by one, and the
shortest lag is taken whose iterations resemble each other about as well as any's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from hostcc.measure import likeness
from hostcc.measure.background_rate import background, typical
from hostcc.measure.series import ByteSeries, Floats, Ints, cumulative, median
from hostcc.measure.silences import Exchanges, Rhythm, exchanges, rhythm
from hostcc.measure.spectrum import SHORTEST, detrended, repeating_lags
from hostcc.measure.tracking import FEWEST, Track, track

MIN_ITERATIONS = 4
"""Complete iterations without which nothing is called periodic."""
LOGIT_SCORE, LOGIT_RHYTHM, LOGIT_BIAS = 6.2, 3.8, -4.6
"""The probability that a period is right: the logistic function of the first times its score, plus
the second times what the rhythm of silences says of it, plus the third.  Fitted to generated series
(docs/internals/measure-period.md)."""
NO_RHYTHM_SUPPORT = 0.6
"""What too few silences say of a period, from -1 to 1: bursts at random have no rhythm either."""
MIN_PROBABILITY = 0.4
"""A period is reported from this probability on."""
SUFFICIENT_PROBABILITY = 0.8
"""With a rhythm of silences of this probability no other period is looked for."""
RHYTHM_TOLERANCE = 0.1
"""A period is that of a rhythm when they differ by at most this fraction."""
SHORTER_AT = 0.93
"""A shorter period is preferred from this fraction of the best score on."""
SHORTER_TURNS_AT = 0.96
"""The same for a half or a third of the best period whose parts take turns."""
SHORTER_FEW_AT, SHORTER_FEW_EQUAL_AT = 0.86, 0.7
"""The same for a half or a third of the best period, when that has few iterations; the second, when
moreover its parts do not take turns."""
FEW_STARTS = 6
"""Starts of iterations up to which these are few."""
NO_TURNS_AT = 0.55
"""Parts do not take turns from this alternation on."""
EVEN_SPREAD, EVEN_BINS = 0.015, 0.2
"""Intervals with a spread of at most the first, plus this many bins, are measured best by
regression."""
MIN_BYTES_ERROR = 0.001
"""No measurement of bytes is more exact than to this fraction."""
MIN_BURST_FRACTION = 0.1
"""Share of the bytes that has to be in bursts: a steady transfer has a rhythm of its own."""
CERTAIN_FRACTION = 0.9
"""Share of the bytes in exchanges of equal size from which on no other period is looked for."""
EXCHANGE_TOLERANCE = 0.03
"""A shape repeats as exchanges do when the intervals differ by at most this, or by a bin."""
SHAPED_SCORE = 0.5
"""From this score on what is sent in an interval has a repeating shape."""
EVEN_EXCHANGES = 0.1
"""Exchanges whose intervals differ by at most this fraction have a rhythm."""
RIGHT_WITHIN = 0.05
"""A figure is right when it differs by at most this fraction."""
QUARTILE = 0.674
"""Of the normal distribution, in standard deviations."""
FEW_EDGES = 4
"""Places of a series up to which each is looked up by itself."""
CONFIDENCE_ITERATIONS = 4.0
"""Iterations after which the confidence is 63 % of the probability that the period is right."""


@dataclass(frozen=True, eq=False)
class Period:
    """What was found in a series; without a period, why not."""

    periodic: bool
    reason: str
    """In words, for a person."""
    confidence: float
    """0 to 1: that this is the period; for a series that is not periodic, 0."""
    period_s: float | None = None
    """Of a typical iteration: stragglers and iterations with a checkpoint do not count."""
    mean_period_s: float | None = None
    """Of all iterations."""
    bytes_per_iteration: float | None = None
    """Both directions, without what is sent all the time at a constant rate."""
    background_bytes_per_s: float | None = None
    """That rate: what passes while the job is silent."""
    spread: float | None = None
    """Half the range in which half of the iteration times lie, over the period."""
    starts: Floats | None = None
    """Shape (k,), in bins of the series: the middle of the silence before an iteration's bursts."""
    irregular: bool = False
    """Iterations that are alike in bytes, not in when they send them: `confidence` is that of the
    mean period, and the typical one says less."""


def detect(of: ByteSeries) -> Period:
    """The period of a series, or why it has none.  Deterministic; O(n log n) for n bins."""
    values = detrended(of.total)
    if not values.any():
        return _aperiodic("no traffic" if not of.total.any() else "traffic at a constant rate")
    if len(values) < MIN_ITERATIONS * SHORTEST:
        return _aperiodic(f"only {len(values)} bins")
    silences = rhythm(of.total)
    found = _from_silences(of, values, silences, SUFFICIENT_PROBABILITY, SHAPED_SCORE)
    if found is not None:
        return found
    equal = exchanges(of.total)
    if equal is not None and equal.plausible(CERTAIN_FRACTION):
        return _from_exchanges(of, values, equal, silences) or irregular(of, equal)
    best = _from_repetition(of, values, silences)
    if best.periodic:
        return best
    found = _from_silences(of, values, silences, MIN_PROBABILITY)
    if found is None and equal is not None and equal.plausible():
        found = irregular(of, equal)
    return found or best


def _from_silences(
    of: ByteSeries, values: Floats, silences: Rhythm | None, likely: float, score: float = 0.0
) -> Period | None:
    """The figures of iterations in the rhythm of the silences; None where that is less likely, or
    what is sent has no repeating shape of at least such a score."""
    if silences is None or silences.likely < likely:
        return None
    one = track(values, silences.interval)
    if one is None or one.score < score or not agree(one.period, silences):
        return None
    found = figures(of, one, silences)
    return found if found.periodic else None


def _from_exchanges(
    of: ByteSeries, values: Floats, equal: Exchanges, silences: Rhythm | None
) -> Period | None:
    """The figures of exchanges of equal size; None where what is sent has no shape that comes
    again as they do."""
    interval = median(np.diff(equal.starts))
    one = track(values, interval)
    if one is None or abs(one.period - interval) > max(EXCHANGE_TOLERANCE * interval, 1.0):
        return None
    found = figures(of, one, silences)
    return found if found.periodic and one.score >= SHAPED_SCORE else None


def _from_repetition(of: ByteSeries, values: Floats, silences: Rhythm | None) -> Period:
    """The shortest lag whose iterations resemble each other about as well as any's."""
    tracks: list[Track] = []
    for lag in sorted(repeating_lags(values), key=lambda lag: lag.bins):
        one = track(values, lag.bins)
        if one is None:
            continue
        tracks.append(one)
        # No longer period can be so much better that it would be preferred.
        if one.score >= SHORTER_TURNS_AT and len(one.starts) > FEW_STARTS:
            break
    found = _aperiodic("nothing comes again often enough")
    # What was preferred for being shorter may not do: then what scored better may.
    while not found.periodic and (best := chosen(tracks)) is not None:
        found = figures(of, best, silences)
        tracks = [one for one in tracks if one.score > best.score]
    return found


def irregular(of: ByteSeries, equal: Exchanges) -> Period:
    """The figures of iterations that are alike in bytes only."""
    intervals = equal.intervals
    count, middle = len(intervals), median(intervals)
    # A median is a whole number of bins, more or less.
    period = regular_interval(equal.starts, middle) if equal.spread <= EVEN_EXCHANGES else middle
    sent = exchanged(of.total, equal.starts, period)
    if sent.amount < MIN_BURST_FRACTION * float(of.total.mean()) * period:
        return _aperiodic(f"a steady transfer with a ripple of {sent.amount:.3g} bytes")
    certain = (
        equal.share
        * (1 - equal.silence_spread)
        * within(RIGHT_WITHIN, equal.spread / QUARTILE / math.sqrt(count))
    )
    return Period(
        periodic=True,
        reason=f"{count} iterations, {equal.share:.0%} of the bytes in exchanges of equal size, "
        f"which take longer or shorter by {equal.spread:.0%}",
        confidence=certain * (1 - math.exp(-count / CONFIDENCE_ITERATIONS)),
        period_s=period * of.bin_s,
        mean_period_s=float(intervals.mean()) * of.bin_s,
        bytes_per_iteration=sent.amount,
        background_bytes_per_s=sent.background / of.bin_s,
        spread=equal.spread,
        starts=equal.starts,
        irregular=True,
    )


def within(share: float, error: float) -> float:
    """How likely a figure is within `share` of the truth; `error`: its standard error.

    Both are parts of the figure; the errors are those of the normal distribution.
    """
    return math.erf(share / error / math.sqrt(2)) if error > 0 else 1.0


def figures(of: ByteSeries, best: Track, silences: Rhythm | None) -> Period:
    """The figures of iterations that were found, unless they are too little alike.

    `silences`: the rhythm of the series' silences.
    """
    count = len(best.starts) - 1
    if count < MIN_ITERATIONS:
        return _aperiodic(f"only {count} iterations of {best.period * of.bin_s:.3g} s so far")
    right = likely(best.score, supported(best.period, silences))
    if right < MIN_PROBABILITY:
        return _aperiodic(
            f"what comes every {best.period * of.bin_s:.3g} s is not alike enough in {count} "
            f"iterations: a period by {right:.0%}"
        )
    intervals = np.diff(best.starts)
    low, high = np.quantile(intervals, (0.25, 0.75))
    sent = exchanged(of.total, best.starts, best.period)
    period = regular_interval(best.starts, best.period)
    spread = float(high - low) / 2 / period
    if silences is not None and silences.likely >= MIN_PROBABILITY and agree(best.period, silences):
        # Patterns and silences are measured differently: their errors have little in common.
        sent = weighted(sent, exchanged(of.total, silences.starts, silences.interval))
        if spread > EVEN_SPREAD + EVEN_BINS / period:
            period = (period + silences.interval) / 2
    everything = float(np.diff(between(cumulative(of.total), best.starts[[0, -1]]))[0])
    if sent.amount * count < MIN_BURST_FRACTION * everything:
        return _aperiodic(f"a steady transfer with a ripple of {sent.amount:.3g} bytes")
    return Period(
        periodic=True,
        reason=f"{count} iterations, alike by {best.explained:.0%}, regular by "
        f"{best.regularity:.0%}",
        confidence=right
        * within(RIGHT_WITHIN, sent.error)
        * (1 - math.exp(-count / CONFIDENCE_ITERATIONS)),
        period_s=period * of.bin_s,
        mean_period_s=float(intervals.mean()) * of.bin_s,
        bytes_per_iteration=sent.amount,
        background_bytes_per_s=sent.background / of.bin_s,
        spread=spread,
        starts=best.starts,
    )


def agree(period: float, silences: Rhythm) -> bool:
    """Whether a period, bins, is that of a rhythm."""
    return abs(period / silences.interval - 1) <= RHYTHM_TOLERANCE


def supported(period: float, silences: Rhythm | None) -> float:
    """What the silences say of a period, bins: from -1, they have another rhythm, to 1."""
    if silences is None:
        return NO_RHYTHM_SUPPORT
    return silences.likely if agree(period, silences) else -silences.likely


def likely(score: float, support: float) -> float:
    """How likely it is that a period with this score is the iteration's; 0 to 1.

    `support`: as from `supported`.
    """
    return 1 / (1 + math.exp(-(LOGIT_SCORE * score + LOGIT_RHYTHM * support + LOGIT_BIAS)))


def chosen(tracks: Sequence[Track]) -> Track | None:
    """The fundamental: the shortest period that explains about as much as any does."""
    enough = [one for one in tracks if len(one.starts) > MIN_ITERATIONS] or [
        one for one in tracks if len(one.starts) > FEWEST
    ]
    if not enough:
        return None
    best = max(enough, key=lambda one: one.score)
    return min(
        (one for one in enough if one.score >= _needed(one, best) * best.score),
        key=lambda one: one.period,
    )


def _needed(shorter: Track, best: Track) -> float:
    """Share of the best score that a shorter period needs.

    Two or three iterations at once look more alike than single ones when there are few of
    them.  Bursts of one iteration look like iterations, but they take turns.
    """
    ratio = best.period / shorter.period
    parts = round(ratio)
    if not 2 <= parts <= 3 or abs(ratio / parts - 1) > 0.04:
        return SHORTER_AT
    turns = likeness.alternation(shorter.pieces, np.diff(shorter.starts), shorter.period, parts)
    equal = turns >= NO_TURNS_AT
    if len(best.starts) <= FEW_STARTS:
        return SHORTER_FEW_EQUAL_AT if equal else SHORTER_FEW_AT
    return SHORTER_AT if equal else SHORTER_TURNS_AT


def regular_interval(starts: Floats, period: float) -> float:
    """Length of an iteration from where they start: regression within stretches in rhythm.

    A start that is placed wrongly by a part of a bin matters less the more iterations are
    between the two ends of a stretch; an iteration that is late only ends a stretch.
    """
    intervals = np.diff(starts)
    near = intervals[np.abs(intervals / period - 1) < 0.3]
    if not len(near):
        return period
    middle = median(near)
    allowed = max(4.5 * median(np.abs(near - middle)), 0.02 * middle)
    steady = np.abs(intervals - middle) <= allowed
    # Starts between which all intervals are steady are one stretch.
    stretch = np.concatenate(((0,), np.cumsum(~steady)))
    size = np.bincount(stretch).astype(np.float64)
    number = np.arange(len(starts), dtype=np.float64)
    number -= (np.bincount(stretch, number) / size)[stretch]
    place = starts - (np.bincount(stretch, starts) / size)[stretch]
    weight = float(number @ number)
    return float(number @ place) / weight if weight > 0 else middle


def between(sums: Floats, edges: Floats) -> Floats:
    """Bytes before places that are not whole bins; `sums` as from `cumulative`."""
    # np.interp would need the number of every bin, of which there can be thousands.
    last = len(sums) - 1
    if len(edges) <= FEW_EDGES:
        return np.array([_before(sums, last, edge) for edge in edges.tolist()])
    inside = np.minimum(np.maximum(edges, 0.0), last)
    left = inside.astype(np.intp)
    before = sums[left]
    return (sums[np.minimum(left + 1, last)] - before) * (inside - left) + before


def _before(sums: Floats, last: int, edge: float) -> float:
    """The same of one place: arrays of two numbers take ten times as long."""
    inside = min(max(edge, 0.0), last)
    left = int(inside)
    before = sums.item(left)
    return (sums.item(min(left + 1, last)) - before) * (inside - left) + before


class IterationBytes(NamedTuple):
    """What a job sends in an iteration."""

    amount: float
    """Bytes, without the background."""
    background: float
    """Bytes per bin."""
    error: float
    """Standard error of the amount, as a part of it."""


def exchanged(values: Floats | Ints, starts: Floats, period: float) -> IterationBytes:
    """Bytes in one iteration without the background, and the background.

    `values`: bytes per bin, shape (n,); `starts` and `period` in bins.
    """
    sums = cumulative(values)
    intervals = np.diff(starts)
    idle = background(sums, starts, period)
    sent = np.diff(between(sums, starts)) - idle.mean * intervals
    amount = typical(sent[intervals < 1.5 * period])
    error = math.hypot(amount.error, idle.error * period) / max(amount.mean, 1e-300)
    return IterationBytes(amount.mean, idle.mean, error)


def weighted(one: IterationBytes, other: IterationBytes) -> IterationBytes:
    """The mean of two measurements, the surer of which counts more."""
    first, second = (1 / (each.error**2 + MIN_BYTES_ERROR**2) for each in (one, other))
    share = first / (first + second)
    return IterationBytes(*(share * a + (1 - share) * b for a, b in zip(one, other, strict=True)))


def _aperiodic(reason: str) -> Period:
    return Period(periodic=False, reason=reason, confidence=0.0)
