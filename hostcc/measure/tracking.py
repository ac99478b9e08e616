"""Where iterations begin, given about how long they are: a pattern is moved along the series.

A Fourier transform or an autocorrelation sees one rhythm in the whole series; after one late
iteration everything is out of step with it.  Here each iteration is found by itself, near
where it is due, by comparing the series with the mean of all iterations.  The places are
chosen by dynamic programming, so that a wrong one costs no more than itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hostcc.measure import likeness
from hostcc.measure.likeness import GAIN_RANGE, TOLERANCE
from hostcc.measure.pattern import longest_silence, mean_of, sampled
from hostcc.measure.series import Floats, Ints, coarser, cumulative, median, smoothed

RESOLUTION = 64
"""Least bins of an iteration, where the series has them; fewer than twice as many."""
MOST_CYCLES = 96
"""Iterations that are tracked at most: the last ones."""
FEWEST = 3
"""Iterations without which nothing is said."""
SHORTEST, LONGEST = 0.75, 3.0
"""Intervals between neighbours in periods; beyond the longest the track is broken."""
SMOOTHING = 24
"""What is shorter than a period over this is smoothed: bursts meet bins at different places,
and need not be punctual to a thousandth."""
STEP_COST = 0.5
"""What a step out of rhythm costs, in energies of the pattern."""
COVERAGE = 0.9
"""So much of the time has to be filled with iterations: stragglers leave some of it empty."""
REACH = 0.6
"""Share of the bytes that the iterations have to hold; the rest is at the ends of the series."""
ODD_END = 0.04
"""Fraction of the median by which the first and the last interval may differ from it."""
ROUNDS = 2
SEEDS = 8

_Complex = npt.NDArray[np.complex128]


@dataclass(frozen=True, eq=False)
class Track:
    """The iterations that were found in a series."""

    starts: Floats
    """In bins of the series, not whole; in the middle of the longest silence.  Shape (k,)."""
    period: float
    """Median interval, bins."""
    pattern: Floats
    """Mean of the iterations from `starts` on, one period long, in coarser bins."""
    pieces: Floats
    """Each whole iteration in such bins, shape (iterations, width)."""
    silence: float
    """Length of the longest silence over the period; `starts` are in the middle of it."""
    explained: float
    """Share of the variance that the other iterations predict of each one; at most 1."""
    regularity: float
    """1: all intervals are equal; towards 0: they have nothing in common."""

    coverage: float
    """Share of the time from the first to the last start that the iterations' periods fill."""
    reach: float
    """Share of the series' bytes from the first iteration to the end of the last."""
    gaps: float
    """Share of the intervals that make this a part of a longer period."""

    @property
    def score(self) -> float:
        """How much of the series is one repeating pattern; 0 to 1."""
        covered = min(1.0, self.coverage / COVERAGE) * min(1.0, self.reach / REACH)
        return self.explained * self.regularity * (1 - self.gaps) * covered


def track(values: Floats, lag: float) -> Track | None:
    """Iterations of about `lag` bins in a series; None when there are fewer than three.

    `values`: shape (n,), above their floor.
    """
    tail = max(0, len(values) - int(MOST_CYCLES * lag))
    values = smoothed(values[tail:], max(2, round(lag / SMOOTHING)))
    coarse, factor = at_resolution(values, lag)
    period = lag / factor
    if len(coarse) < FEWEST * round(period) or not coarse.any():
        return None
    series = _ReferenceSeries.of(coarse, 2 * round(period))
    pattern = _seed(series, round(period))
    for _ in range(ROUNDS):
        places = _placed(series.gain(pattern), period)
        if len(places) < FEWEST:
            return None
        period = typical_interval(np.diff(places), period)
        width = min(round(period), len(coarse))
        pattern = mean_of(_pieces(coarse, _inside(places, len(coarse), width), width))
        shift = longest_silence(pattern)[0]
        pattern = mean_of(_pieces(coarse, _inside(places + shift, len(coarse), width), width))
    gains = series.gain(pattern)
    places = _placed(gains, period)
    if len(places) < FEWEST:
        return None
    starts = _without_odd_ends(_between_bins(gains, places))
    return _measured(values, starts * factor, period * factor, len(pattern), tail)


def _measured(
    values: Floats, starts: Floats, period: float, width: int, offset: int
) -> Track | None:
    """What iterations that begin at `starts` have in common, in bins of the whole series."""
    sums, squares = cumulative(values), cumulative(values * values)
    period = typical_interval(np.diff(starts), period)
    whole = (starts >= 0) & (starts + period <= len(values))
    if whole.sum() < FEWEST:
        return None
    pieces = sampled(sums, starts[whole], period, width)
    pattern = mean_of(pieces)
    shift, silence = longest_silence(pattern)
    moved = starts + shift * period / width
    return Track(
        starts=moved[(moved >= 0) & (moved <= len(values))] + offset,
        period=period,
        pattern=np.roll(pattern, -shift),
        pieces=pieces,
        silence=silence / width,
        explained=likeness.explained(pieces, starts[whole], period, squares),
        regularity=likeness.regularity(np.diff(starts), period),
        coverage=(len(starts) - 1) * period / max(float(starts[-1] - starts[0]), period),
        reach=_reach(sums, starts, period),
        gaps=likeness.gaps(starts, period, float(pattern.mean()), sums),
    )


def _reach(sums: Floats, starts: Floats, period: float) -> float:
    first, last = np.interp((starts[0], starts[-1] + period), np.arange(len(sums)), sums)
    return float((last - first) / max(sums[-1], 1e-300))


def at_resolution(values: Floats, lag: float) -> tuple[Floats, float]:
    """The series in bins of which `lag` has 64 to 128, and how many old ones make a new one.

    Where the bins are too long, rates between them are interpolated, so that bursts which meet
    bins at different places can be laid over each other.
    """
    if lag >= RESOLUTION:
        factor = int(lag // RESOLUTION)
        return coarser(values, factor), float(factor)
    finer = int(np.ceil(RESOLUTION / lag))
    box = np.full(finer, 1 / finer**2)
    return np.convolve(np.repeat(values, finer), box, mode="same"), 1 / finer


def typical_interval(intervals: Floats, period: float) -> float:
    """The median of the intervals that can be one iteration."""
    single = intervals[(intervals > SHORTEST * period) & (intervals < 1.5 * period)]
    return median(single) if len(single) else period


@dataclass(frozen=True, eq=False)
class _ReferenceSeries:
    """A series that patterns are compared with: its transform is made once."""

    values: Floats
    spectrum: _Complex
    length: int
    """Of the transform."""

    @classmethod
    def of(cls, values: Floats, widest: int) -> _ReferenceSeries:
        """`widest`: bins of a pattern at most."""
        length = 1 << (len(values) + widest).bit_length()
        return cls(values, np.fft.rfft(values, length), length)

    def match(self, pattern: Floats) -> Floats:
        """How strong the pattern is at each place by least squares, 1: as it is itself.

        Shape (n - width + 1,).
        """
        product = self.spectrum * np.conj(np.fft.rfft(pattern, self.length))
        places = len(self.values) - len(pattern) + 1
        found: Floats = np.fft.irfft(product, self.length)[:places]
        return found / max(float(pattern @ pattern), 1e-300)

    def gain(self, pattern: Floats) -> Floats:
        """Energy that the pattern explains where it is put, over its own.

        Shape (n - width + 1,).
        """
        match = self.match(pattern)
        scale = np.clip(match, *GAIN_RANGE)
        result: Floats = scale * (2 * match - scale)
        return result


def _seed(series: _ReferenceSeries, width: int) -> Floats:
    """The piece of the series that looks most like the rest, of a few pieces."""
    values = series.values
    begins = np.linspace(0, len(values) - width, SEEDS).astype(np.int64)
    sums = cumulative(values * values)
    energy = sums[width:] - sums[:-width]
    least = max(0.1 * float(np.quantile(energy, 0.75)), 1e-9 * float(energy.max()))
    slots = len(energy) // width
    best, chosen = -1.0, values[:width]
    for begin in begins.tolist():
        if energy[begin] <= least:
            continue
        piece = values[begin : begin + width]
        match = np.maximum(series.match(piece), 0.0)
        likeness = match * match * (energy[begin] / np.maximum(energy, least))
        total = float(likeness[: slots * width].reshape(slots, width).max(axis=1).mean())
        if total > best:
            best, chosen = total, piece
    return chosen


def _placed(gains: Floats, period: float) -> Ints:
    """The places of a pattern that explain most, with a rhythm of about `period` bins."""
    padded = np.concatenate(((-np.inf,), gains, (-np.inf,)))
    peaks = np.flatnonzero((gains > 0.1) & (gains >= padded[:-2]) & (gains > padded[2:]))
    if not len(peaks):
        return peaks
    near = np.searchsorted(peaks, peaks - SHORTEST * period, side="right").tolist()
    far = np.searchsorted(peaks, peaks - LONGEST * period, side="left").tolist()
    places = (peaks / period).tolist()
    # Best sum of a chain that ends at each peak, and the best up to and including each peak.
    best: list[float] = np.minimum(gains[peaks], 1.0).tolist()
    before, leader = [-1] * len(best), [0] * len(best)
    for index, (first, last) in enumerate(zip(far, near, strict=True)):
        sums, origin = 0.0, -1
        for earlier in range(first, last):
            away = (places[index] - places[earlier] - 1) / TOLERANCE
            cost = away * away if -1.0 < away < 1.0 else 1.0
            reached = best[earlier] - STEP_COST * cost
            if reached > sums:
                sums, origin = reached, earlier
        if first > 0 and best[leader[first - 1]] - 2 * STEP_COST > sums:
            origin = leader[first - 1]
            sums = best[origin] - 2 * STEP_COST
        if sums > 0:
            best[index] += sums
            before[index] = origin
        ahead = leader[index - 1] if index else 0
        leader[index] = index if best[index] > best[ahead] else ahead
    chain = [leader[-1]]
    while before[chain[-1]] >= 0:
        chain.append(before[chain[-1]])
    return peaks[chain[::-1]]


def _pieces(values: Floats, places: Ints, width: int) -> Floats:
    """The series from each place on, shape (places, width)."""
    found: Floats = values[places[:, None] + np.arange(width)]
    return found


def _without_odd_ends(starts: Floats) -> Floats:
    """Without a first and a last one that are out of rhythm.

    Where the series begins or ends within an iteration, the pattern is put where it fits in.
    """
    intervals = np.diff(starts)
    odd = np.abs(intervals / np.median(intervals) - 1) > ODD_END
    return starts[int(odd[0]) : len(starts) - int(odd[-1])]


def _inside(places: Ints, size: int, width: int) -> Ints:
    kept = places[(places >= 0) & (places + width <= size)]
    return kept if len(kept) else np.clip(places, 0, size - width)


def _between_bins(gains: Floats, places: Ints) -> Floats:
    """The places, moved to where the match is best between bins."""
    inner = np.clip(places, 1, max(1, len(gains) - 2))
    if len(gains) < 3:
        return places.astype(np.float64)
    before, here, after = gains[inner - 1], gains[inner], gains[inner + 1]
    bend = before - 2 * here + after
    shift = np.where(bend < 0, 0.5 * (before - after) / np.minimum(bend, -1e-12), 0.0)
    moved: Floats = places.astype(np.float64) + np.where(
        inner == places, np.clip(shift, -0.5, 0.5), 0.0
    )
    return moved
