"""New iterations of a job compared with the pattern that was learned.

An iteration deviates that is longer or shorter, computes for longer or shorter, or sends another
amount.  Two and more in a row may be a change, stragglers, or iterations that were found at the
wrong place.  `change` decides: they are a change when nothing like them is in the job's past.
Time for computing is measured by silence: another job in the link makes exchanges longer, not the
silence between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hostcc.measure.change import HISTORY, changed
from hostcc.measure.likeness import GAIN_RANGE, TOLERANCE
from hostcc.measure.pattern import mean_of, sampled
from hostcc.measure.period import Period, between
from hostcc.measure.series import Bins, ByteSeries, Floats, cumulative, median, part, smoothed
from hostcc.measure.spectrum import RATE_CAP, detrending_of
from hostcc.measure.tracking import SMOOTHING, STEP_COST, at_resolution

EARLIEST, LATEST = 0.5, 2.2
"""Periods after one iteration's start between which the next one's is looked for."""
LATEST_SILENT = 4.5
"""The second, while nothing is sent: an iteration can be late."""
MIN_SEEN = 1.2
"""Periods after an iteration's start before which its end is not looked for."""
MAX_SILENT_BYTES = 0.1
"""Bytes that count as nothing, over those of an iteration."""
MIN_SEEN_ENERGY = 0.3
"""Share of the next iteration's energy that has to be seen before its start is known."""
MIN_GAIN = 0.4
"""Share of the pattern's energy that has to be found where an iteration is to start."""
INTERVAL_TOLERANCE = (0.025, 0.12)
"""Least and greatest share by which an iteration may be longer or shorter, and ..."""
BYTES_TOLERANCE = (0.04, 0.3)
"""... send more or less; between them, what the job's own iterations differ by decides."""
TOLERANCE_DEVIATIONS = 6.0
"""Tolerances, in median deviations of the job's own iterations."""
LOUD = 0.2
"""Rate from which on a bin is not silent at all, over the 90th percentile of those above the
floor."""
TESTED_AFTER = 2.0
"""Periods after an iteration that deviates that are tested for a change with it."""
OVERDUE = 1.5
"""Periods after an iteration's start from which on a missing next one counts as a deviation."""


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
    detrending = detrending_of(values)
    smooth = smoothed(detrending.applied_to(values), _width(period))
    whole = found.starts[found.starts + period <= len(of)]
    finer = at_resolution(np.zeros(1), period)[1]
    pattern = mean_of(sampled(cumulative(smooth), whole, period, round(period / finer)))
    lengths = np.diff(found.starts)
    sent = np.diff(between(cumulative(values), found.starts))
    typical = median(sent)
    quiet = LOUD * detrending.cap / RATE_CAP
    silent = np.diff(between(_silence(values, detrending.floor, quiet), found.starts)) / period
    return Reference(
        period=period,
        pattern=pattern * finer,
        floor=detrending.floor,
        cap=detrending.cap,
        sent=typical,
        interval_tolerance=_tolerance(lengths / period, INTERVAL_TOLERANCE),
        bytes_tolerance=_tolerance(sent / max(typical, 1.0), BYTES_TOLERANCE),
        quiet=quiet,
        silent=median(silent),
        silent_tolerance=_tolerance(silent, INTERVAL_TOLERANCE),
    )


def completed(
    of: Bins, start: float, known: Reference, *, doubtful: bool = False
) -> list[Iteration]:
    """The iterations from `start` (bins) on whose end is in the series.

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


def deviating_run(recent: Sequence[Iteration]) -> Sequence[Iteration]:
    """The last ones that deviate, one after the other."""
    count = 0
    while count < len(recent) and recent[-1 - count].deviates:
        count += 1
    return recent[len(recent) - count :]


def first_suspect(recent: Sequence[Iteration]) -> Iteration | None:
    """The first of the last ones in a row that deviate; one that does not may come after them.

    By chance the bursts of another pattern look like an iteration now and then.
    """
    row = deviating_run(recent) or deviating_run(recent[:-1])
    return row[0] if row else None


def changed_from(of: Bins, begin: float, until: float, known: Reference) -> bool:
    """Whether the job has changed where something deviates, from `begin` on; bins.

    `until`: so far iterations have been compared; what came soon after counts, too.
    """
    first = max(0, int(begin - HISTORY * known.period))
    values = _capped(part(of, first, int(until + TESTED_AFTER * known.period)).total, known)
    return changed(values, begin - first, known.period, known.quiet / 2)


def _compared(
    start: float, length: float, sent: float, silent: float, *, known: Reference, lost: bool = False
) -> Iteration:
    """An iteration compared with the reference; all but `start` as in `Iteration`."""
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
        if len(series) - first < MIN_SEEN * known.period:
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
    if ahead.bins - max(0, int(begin)) < MIN_SEEN * known.period:
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
    lost = bool(gains[best] < MIN_GAIN)
    last = len(ahead.gains) - 1
    seen = (last * ahead.factor - begin) / known.period
    if (lost or near + best >= last - 1) and seen < latest:
        return None  # what comes may be a better match
    early = steps[best] < 1 - known.interval_tolerance
    if early and not doubtful and seen < 1:
        return None  # what would be on time cannot be seen yet
    length = 1.0 if lost else float(steps[best])  # when the track is lost, go by the clock
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
    return LATEST_SILENT if sent < MAX_SILENT_BYTES * known.sent else LATEST


def _gains(values: Floats, pattern: Floats) -> Floats:
    """As `gain`, also where only the beginning of the pattern can be seen yet.

    Shape (places,); at most 1.
    """
    energy = np.cumsum(pattern * pattern)
    needed = int(np.searchsorted(energy, MIN_SEEN_ENERGY * energy[-1])) + 1
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
    deviation = median(np.abs(values - median(values)))
    return float(np.clip(TOLERANCE_DEVIATIONS * deviation, *bounds))
