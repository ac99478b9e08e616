"""Whether a job still does what it did: each new iteration beside those that were learned.

Two iterations one after the other that differ from the job's own in the same way are a change,
and so are three that differ in any way; stragglers differ, too, but seldom twice alike.  Of a
job that has no stragglers any two are enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hostcc.measure.likeness import GAIN_RANGE, TOLERANCE
from hostcc.measure.pattern import mean_of, sampled
from hostcc.measure.period import Period, between
from hostcc.measure.series import Bins, ByteSeries, Floats, cumulative, part, smoothed
from hostcc.measure.spectrum import taming_of
from hostcc.measure.tracking import SMOOTHING, STEP_COST, at_resolution

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
ALIKE = 0.1
"""Two iterations have changed in the same way when they differ by at most so much."""


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


@dataclass(frozen=True)
class Iteration:
    """An iteration that came after those of the reference."""

    start: float
    """Bins."""
    length: float
    """Over the reference's period."""
    sent: float
    """Over the reference's bytes."""
    lost: bool = False
    """Nothing like the pattern was found: the length is that of the pattern."""
    by_length: bool = False
    """It is longer or shorter than the job's iterations are."""
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
    tamed = smoothed(taming.tame(values), _width(period))
    whole = found.starts[found.starts + period <= len(of)]
    finer = at_resolution(np.zeros(1), period)[1]
    pattern = mean_of(sampled(cumulative(tamed), whole, period, round(period / finer)))
    lengths = np.diff(found.starts)
    sent = np.diff(between(cumulative(values), found.starts))
    typical = float(np.median(sent))
    return Reference(
        period=period,
        pattern=pattern * finer,
        floor=taming.floor,
        cap=taming.cap,
        sent=typical,
        interval_tolerance=_tolerance(lengths / period, INTERVAL_TOLERANCE),
        bytes_tolerance=_tolerance(sent / max(typical, 1.0), BYTES_TOLERANCE),
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


def changed(recent: Sequence[Iteration], *, calm: bool) -> bool:
    """Whether iterations differ from the reference: the last two in the same way, or three.

    For a job that was `calm`, none of whose iterations differed lately, any two are enough.
    """
    if len(recent) < 2 or not (recent[-1].deviates and recent[-2].deviates):
        return False
    before, last = recent[-2:]
    return (
        calm
        or (last.by_bytes and before.by_bytes and _alike(last.sent, before.sent))
        or (last.by_length and before.by_length and _alike(last.length, before.length))
        or (len(recent) >= 3 and recent[-3].deviates)
    )


def _alike(one: float, other: float) -> bool:
    return abs(one - other) <= ALIKE * max(one, other)


@dataclass(frozen=True, eq=False)
class _Ahead:
    """What came after an iteration's start, compared with the reference once for all."""

    first: int
    """Bin of the series that it begins with."""
    bins: int
    sums: Floats
    """Bytes before each edge, shape (bins + 1,)."""
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
        tamed = np.minimum(np.maximum(values - known.floor, 0.0), known.cap)
        fine, factor = at_resolution(smoothed(tamed, _width(known.period)), known.period)
        return cls(first, len(values), cumulative(values), _gains(fine, known.pattern), factor)


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
    return Iteration(
        start,
        length,
        sent,
        lost=lost,
        by_length=abs(length - 1) > known.interval_tolerance,
        by_bytes=abs(sent - 1) > known.bytes_tolerance,
    )


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
