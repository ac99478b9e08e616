"""Which lags a series repeats itself after: autocorrelation by Fourier transform.

The lags are split into octaves, and each octave is searched in bins that are as coarse as it
allows.  That keeps the work at O(n log n) for any range of lags, and makes a lag tolerant to
jitter in proportion to its length: bursts that come 3 % late still meet after one iteration.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hostcc.measure.series import Floats, coarser, cumulative

OCTAVE = 32
"""Bins of the shortest lag of an octave that is searched in coarser bins; the longest has
twice as many."""
SHORTEST = 4
"""Bins of the shortest lag that is searched for."""
CYCLES = 2.5
"""So often the longest lag has to fit into the series."""
RATE_CAP = 3.0
"""Rates are cut at this multiple of the 90th percentile of those above zero."""


@dataclass(frozen=True)
class Lag:
    """A local maximum of the autocorrelation."""

    bins: float
    """In bins of the series, between two of them."""
    correlation: float
    """1: what came again was the same."""


def floor_of(values: Floats) -> float:
    """What is always there: the 5th percentile of the bins."""
    return float(np.quantile(values, 0.05)) if len(values) else 0.0


@dataclass(frozen=True)
class Detrending:
    """What is taken away from a series before it is analysed; bytes per bin."""

    floor: float
    """What is always there."""
    cap: float
    """Above the floor: rates beyond it are cut."""

    def applied_to(self, values: Floats) -> Floats:
        """The series above the floor and below the cap; shape (n,)."""
        result: Floats = np.minimum(np.maximum(values - self.floor, 0.0), self.cap)
        return result


def detrending_of(values: Floats) -> Detrending:
    """For a series: its floor, and a cap that only single very high bins reach."""
    floor = floor_of(values)
    above = values[values > floor] - floor
    return Detrending(floor, RATE_CAP * float(np.quantile(above, 0.9)) if len(above) else 0.0)


def detrended(values: Floats) -> Floats:
    """The series above its floor, with single very high bins cut; shape (n,)."""
    return detrending_of(values).applied_to(values)


def repeating_lags(values: Floats, most: int = 10) -> list[Lag]:
    """The lags after which the series looks most like itself, best first.

    `values`: shape (n,).  At most `most` lags, from 4 bins to n / 2.5.
    """
    longest = len(values) / CYCLES
    found: list[Lag] = []
    factor = 1
    while factor * OCTAVE <= longest or factor == 1:
        first = SHORTEST if factor == 1 else OCTAVE
        last = min(2 * OCTAVE, int(longest / factor))
        if last > first:
            coarse = coarser(values, factor)
            found += _peaks(_highpassed(coarse, 2 * last), first, last, factor)
            # Bulk transfers have two edges however long they are, bursts have two each.
            found += _peaks(np.diff(coarse), first, last, factor)
        factor *= 2
    found.sort(key=lambda lag: -lag.correlation)
    distinct: list[Lag] = []
    for lag in found:
        if all(abs(lag.bins / other.bins - 1) > 0.04 for other in distinct):
            distinct.append(lag)
    # Multiples of a burst's lag must not crowd out the iteration's, which is longer.
    octaves: dict[int, Lag] = {}
    for lag in distinct:
        octaves.setdefault(int(np.log2(lag.bins)), lag)
    chosen = list(octaves.values())[:most]
    chosen += [lag for lag in distinct if lag not in chosen][: most - len(chosen)]
    return sorted(chosen, key=lambda lag: -lag.correlation)


def autocorrelation(values: Floats, last: int) -> Floats:
    """Correlation of a series with itself `lag` bins later, for lags 0 to `last`.

    Each lag is normalised by the energy of the two parts that overlap there, so that a series
    that repeats itself has 1 at every multiple of its period.  Shape (last + 1,).
    """
    size = len(values)
    length = 1 << (size + last).bit_length()
    spectrum = np.fft.rfft(values, length)
    products = np.fft.irfft(spectrum * np.conj(spectrum), length)[: last + 1]
    energy = cumulative(values * values)
    lags = np.arange(last + 1)
    norm = np.sqrt(energy[size - lags] * (energy[size] - energy[lags]))
    result: Floats = np.divide(products, norm, out=np.zeros(last + 1), where=norm > 1e-9 * norm[0])
    return result


def _highpassed(values: Floats, width: int) -> Floats:
    """Without what changes more slowly than over `width` bins."""
    width = min(width, len(values))
    edges = np.arange(len(values))
    first = np.clip(edges - width // 2, 0, len(values) - width)
    sums = cumulative(values)
    return values - (sums[first + width] - sums[first]) / width


def _peaks(values: Floats, first: int, last: int, factor: int) -> list[Lag]:
    """Local maxima between two lags, each placed by the parabola through its neighbours."""
    correlation = autocorrelation(values, last + 1)
    inner = correlation[first : last + 1]
    before, after = correlation[first - 1 : last], correlation[first + 1 : last + 2]
    peaks = np.flatnonzero((inner >= before) & (inner > after) & (inner > 0.1))
    bend = before - 2 * inner + after
    shift = np.where(bend < 0, 0.5 * (before - after) / np.minimum(bend, -1e-12), 0.0)
    height = inner - 0.25 * (before - after) * shift
    return [Lag(float(first + at + shift[at]) * factor, float(height[at])) for at in peaks.tolist()]
