"""Whether a job still does what it did: each new iteration beside those that were learned.

One that is longer or shorter, computes for longer or shorter or sends another amount deviates.
Two and more in a row may be a change, stragglers, or a thread that was lost.  So the past is asked:
they are a change when the past has nothing like them (`novelty`), or when they are alike and the
past's iterations are not.  Computing is told by silence: another job in the link makes exchanges
longer, not the silence between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from hostcc.measure.likeness import GAIN_RANGE, TOLERANCE
from hostcc.measure.novelty import novelty
from hostcc.measure.pattern import mean_of, sampled
from hostcc.measure.period import Period, between
from hostcc.measure.series import Bins, ByteSeries, Floats, cumulative, part, smoothed
from hostcc.measure.spectrum import RATE_CAP, tamed, taming_of
from hostcc.measure.tracking import SMOOTHING, STEP_COST, at_resolution, track

EARLIEST, LATEST = 0.5, 2.2
"""Periods after one iteration's start between which the next one's is looked for."""
SILENT = 4.5
"""The same, while nothing is sent: an iteration can be late."""
SEEN_FIRST = 1.2
"""Periods after an iteration's start before which its end is not looked for."""
SILENCE = 0.1
"""Less than so much of an iteration's bytes counts as nothing."""
SEEN_ENERGY = 0.3
"""Share of the next iteration's energy that has to be seen before its start is known."""
LEAST_GAIN = 0.4
"""Of its energy, that a place has to explain of the pattern."""
INTERVAL_TOLERANCE = (0.025, 0.12)
"""Least and greatest share by which an iteration may be longer or shorter, and ..."""
BYTES_TOLERANCE = (0.04, 0.3)
"""... send more or less; between them, what the job's own iterations differ by decides."""
DEVIATIONS = 6.0
"""Median deviations of the job's own iterations that are allowed."""
QUIET = 0.2
"""A bin with so much of the 90th percentile of the rates above the floor is not silent at all."""
HISTORY, AFTER = 48, 11.0
"""Periods before and after a possible change that are looked at: what came after it, which can be
much at once, may not be longer than the past that it is compared with."""
FEWEST = 12
"""Iterations before it without which two that are alike say nothing."""
WRONG = 0.35
"""When more of them deviate the pattern is wrong."""
PASSED, PASSED_LONGER = 1.6, 2.4
"""Periods since the first iteration that deviates, before which only some that are alike count; the
second, when a silence or a burst was longer than usual: a straggler or a checkpoint goes by."""
LONGER = 1.15
"""So many times as long as usual is longer."""


@dataclass(frozen=True, eq=False)
class Reference:
    """What iterations of a job are compared with; bins are those of its series."""

    period: float
    """Bins."""
    pattern: Floats
    """One iteration from the middle of its longest silence on, one value per finer bin."""
    floor: float
    """Bytes per bin that are always there."""
    cap: float
    """Bytes per bin above the floor beyond which nothing counts."""
    sent: float
    """Bytes in one iteration, background and all."""
    interval_tolerance: float
    """Share of the period."""
    bytes_tolerance: float
    """Share of `sent`."""
    quiet: float
    """Bytes per bin above the floor from which on a bin is not silent at all."""
    silent: float
    """Silence in one iteration, over the period."""
    silent_tolerance: float
    """Share of the period."""


@dataclass(frozen=True)
class Iteration:
    """An iteration that came after those of the reference."""

    start: float
    """Bins."""
    length: float
    """Over the reference's period."""
    sent: float
    """Over the reference's bytes."""
    silent: float = 0.0
    """Silence in it over the reference's period."""
    lost: bool = False
    """Nothing like the pattern was found: the length is that of the pattern."""
    by_length: bool = False
    """It, or the silence in it, is longer or shorter than in the job's iterations."""
    by_bytes: bool = False
    """It sends more or less."""

    @property
    def deviates(self) -> bool:
        """Whether it is not as the job's iterations are."""
        return self.lost or self.by_length or self.by_bytes


def reference(of: ByteSeries, found: Period) -> Reference | None:
    """What new iterations have to resemble; None without a period."""
    if found.period_s is None or found.starts is None:
        return None
    period, values = found.period_s / of.bin_s, of.total
    taming = taming_of(values)
    smooth = smoothed(taming.tame(values), _width(period))
    whole = found.starts[found.starts + period <= len(of)]
    finer = at_resolution(np.zeros(1), period)[1]
    pattern = mean_of(sampled(cumulative(smooth), whole, period, round(period / finer)))
    lengths = np.diff(found.starts)
    sent = np.diff(between(cumulative(values), found.starts))
    typical = float(np.median(sent))
    quiet = QUIET * taming.cap / RATE_CAP
    silent = np.diff(between(_silence(values, taming.floor, quiet), found.starts)) / period
    return Reference(
        period=period,
        pattern=pattern * finer,
        floor=taming.floor,
        cap=taming.cap,
        sent=typical,
        interval_tolerance=_tolerance(lengths / period, INTERVAL_TOLERANCE),
        bytes_tolerance=_tolerance(sent / max(typical, 1.0), BYTES_TOLERANCE),
        quiet=quiet,
        silent=float(np.median(silent)),
        silent_tolerance=_tolerance(silent, INTERVAL_TOLERANCE),
    )


def following(
    of: Bins, start: float, known: Reference, *, doubtful: bool = False
) -> list[Iteration]:
    """The iterations from `start` (bins) on whose end can be told from the series so far.

    An iteration ends where the next one begins, which is known when a part of that has passed.
    `doubtful`: the iteration before deviated, so that the next may well come early.
    """
    found: list[Iteration] = []
    ahead = _Ahead.of(of, start, known)
    while ahead is not None and (one := _next(ahead, start, known, doubtful)) is not None:
        found.append(one)
        doubtful = one.deviates
        start = one.start + one.length * known.period
    return found


def in_a_row(recent: Sequence[Iteration]) -> Sequence[Iteration]:
    """The last ones that deviate, one after the other."""
    count = 0
    while count < len(recent) and recent[-1 - count].deviates:
        count += 1
    return recent[len(recent) - count :]


def changed(of: Bins, begin: float, row: Sequence[Iteration], known: Reference) -> bool:
    """Whether the job has changed; `row`: two or more iterations that deviate, one after the other.

    `begin`: where the first of them begins, bins; `of` goes on to their end and beyond.
    """
    first = max(0, int(begin - HISTORY * known.period))
    tail = part(of, first, int(begin + AFTER * known.period)).total
    since = begin - first
    if alike(row[-2], row[-1], known) and _singular(
        row[-1], earlier(tail[: int(since)], known), known
    ):
        return True
    passed = (len(tail) - since) / known.period
    if not any(alike(*pair, known) for pair in pairwise(row)) and (
        passed < PASSED or (passed < PASSED_LONGER and _longer(tail, since, known))
    ):
        return False
    # One that is not shorter can be as it was itself, and what is new begin with the next.
    late = row[0].length >= 1 - known.interval_tolerance
    return novelty(_capped(tail, known), since, known.period, late=late) > 1


def earlier(values: Floats, known: Reference) -> list[Iteration]:
    """The iterations of a series, each found by itself, beside the reference.

    `values`: bytes per bin, shape (n,).
    """
    found = track(tamed(values), known.period)
    if found is None:
        return []
    starts = found.starts
    sent = np.diff(between(cumulative(values), starts)) / max(known.sent, 1.0)
    silence = _silence(values, known.floor, known.quiet)
    silent = np.diff(between(silence, starts)) / known.period
    lengths = np.diff(starts) / known.period
    every = zip(starts.tolist(), lengths.tolist(), sent.tolist(), silent.tolist(), strict=False)
    return [_compared(*one, known=known) for one in every]


def alike(one: Iteration, other: Iteration, known: Reference) -> bool:
    """Whether two deviate by the same: in what they send, or else in how long they take.

    A burst of another length is found at another place of the silence, which moves starts; it does
    not change what is sent between them.
    """
    if one.lost or other.lost:
        return False
    longer, more = max(one.length, other.length), max(one.sent, other.sent)
    if abs(one.sent - other.sent) > known.bytes_tolerance * more:
        return False
    return (one.by_bytes and other.by_bytes) or (
        abs(one.silent - other.silent) <= known.silent_tolerance * longer
        and abs(one.length - other.length) <= known.interval_tolerance * longer
    )


def _singular(one: Iteration, before: Sequence[Iteration], known: Reference) -> bool:
    """Whether the iterations before, of which most are as they should be, have none like this."""
    odd = [other for other in before if other.deviates]
    return (
        len(before) >= FEWEST
        and len(odd) <= WRONG * len(before)
        and not any(alike(one, other, known) for other in odd)
    )


def _longer(values: Floats, since: float, known: Reference) -> bool:
    """Whether the job was silent, or was not, for longer than usual at a time; `since` in bins."""
    silent = values < known.floor + known.quiet / 2
    edges = np.flatnonzero(np.diff(silent)) + 1
    runs = np.diff(edges)
    if not len(runs):
        return True
    number = (edges[1:] / known.period).astype(np.int64)
    begun = silent[edges[:-1]]
    for kind in (begun, ~begun):
        most = np.zeros(int(len(values) / known.period) + 1)
        np.maximum.at(most, number[kind], runs[kind])
        past = most[: max(1, int(since / known.period))]
        if most[int(since / known.period) + 1 :].max(initial=0.0) > LONGER * np.median(past) + 1:
            return True
    longest = LONGER * known.period * max(known.silent, 1 - known.silent)
    return bool(len(values) - edges[-1] > longest)


def _compared(
    start: float, length: float, sent: float, silent: float, *, known: Reference, lost: bool = False
) -> Iteration:
    """An iteration beside the reference; all but `start` as in `Iteration`."""
    longer = abs(length - 1) > known.interval_tolerance
    return Iteration(
        start,
        length,
        sent,
        silent,
        lost=lost,
        by_length=longer or abs(silent - known.silent) > known.silent_tolerance,
        by_bytes=abs(sent - 1) > known.bytes_tolerance,
    )


def _capped(values: Floats, known: Reference) -> Floats:
    found: Floats = np.minimum(np.maximum(values - known.floor, 0.0), known.cap)
    return found


def _silence(values: Floats, floor: float, quiet: float) -> Floats:
    """Silent bins before each edge, shape (n + 1,)."""
    return cumulative(np.clip(1.0 - (values - floor) / max(quiet, 1e-300), 0.0, 1.0))


@dataclass(frozen=True, eq=False)
class _Ahead:
    """What came after an iteration's start, compared with the reference once for all."""

    first: int
    """Bin of the series that it begins with."""
    bins: int
    sums: Floats
    """Bytes before each edge, shape (bins + 1,)."""
    silence: Floats
    """Silent bins before each edge, shape (bins + 1,)."""
    gains: Floats
    """How much the pattern explains at each place, shape (places,)."""
    factor: float
    """Bins from one place to the next."""

    @classmethod
    def of(cls, series: Bins, start: float, known: Reference) -> _Ahead | None:
        """From `start` on; None when it is too short to say anything."""
        first = max(0, int(start))
        if len(series) - first < SEEN_FIRST * known.period:
            return None
        values = part(series, first).total
        smooth = smoothed(_capped(values, known), _width(known.period))
        fine, factor = at_resolution(smooth, known.period)
        silence = _silence(values, known.floor, known.quiet)
        gains = _gains(fine, known.pattern)
        return cls(first, len(values), cumulative(values), silence, gains, factor)


def _next(ahead: _Ahead, start: float, known: Reference, doubtful: bool) -> Iteration | None:
    """The iteration that begins at `start`, when there is enough to see where it ends."""
    begin = start - ahead.first
    if ahead.bins - max(0, int(begin)) < SEEN_FIRST * known.period:
        return None
    latest = _latest(ahead.sums, begin, known)
    near = max(0, int(np.ceil((begin + EARLIEST * known.period) / ahead.factor)))
    far = max(0, int((begin + latest * known.period) / ahead.factor))
    gains = ahead.gains[near : far + 1]
    if not len(gains):
        return None
    steps = ((near + np.arange(len(gains))) * ahead.factor - begin) / known.period
    away = (steps - 1) / TOLERANCE
    worth = gains - STEP_COST * np.minimum(away * away, 1.0)
    best = int(worth.argmax())
    lost = bool(gains[best] < LEAST_GAIN)
    last = len(ahead.gains) - 1
    seen = (last * ahead.factor - begin) / known.period
    if (lost or near + best >= last - 1) and seen < latest:
        return None  # what comes may be a better match
    early = steps[best] < 1 - known.interval_tolerance
    if early and not doubtful and seen < 1:
        return None  # what would be on time cannot be seen yet
    length = 1.0 if lost else float(steps[best])  # when the thread is lost, go by the clock
    edges = np.array([begin, begin + length * known.period])
    sent = float(np.diff(between(ahead.sums, edges))[0]) / max(known.sent, 1.0)
    silent = float(np.diff(between(ahead.silence, edges))[0]) / known.period
    return _compared(start, length, sent, silent, known=known, lost=lost)


def _latest(sums: Floats, begin: float, known: Reference) -> float:
    """Until when the next iteration is looked for: longer, when nothing has been sent meanwhile.

    `sums`: bytes before each edge; the iteration starts at edge `begin`.
    """
    edges = begin + np.array([1.0, LATEST]) * known.period
    idle = known.floor * (LATEST - 1.0) * known.period
    sent = float(np.diff(between(sums, edges))[0]) - idle
    return SILENT if sent < SILENCE * known.sent else LATEST


def _gains(values: Floats, pattern: Floats) -> Floats:
    """As `gain`, also where only the beginning of the pattern can be seen yet.

    Shape (places,); at most 1.
    """
    energy = np.cumsum(pattern * pattern)
    needed = int(np.searchsorted(energy, SEEN_ENERGY * energy[-1])) + 1
    places = len(values) - needed
    if places <= 0:
        return np.zeros(0)
    seen = np.minimum(len(pattern), len(values) - np.arange(places))
    padded = np.concatenate((values, np.zeros(len(pattern))))
    match = np.correlate(padded, pattern, mode="valid")[:places] / np.maximum(
        energy[seen - 1], 1e-300
    )
    scale = np.clip(match, *GAIN_RANGE)
    found: Floats = np.minimum(scale * (2 * match - scale), 1.0)
    return found


def _width(period: float) -> int:
    return max(2, round(period / SMOOTHING))


def _tolerance(values: Floats, bounds: tuple[float, float]) -> float:
    if not len(values):
        return bounds[1]
    deviation = float(np.median(np.abs(values - np.median(values))))
    return float(np.clip(DEVIATIONS * deviation, *bounds))
