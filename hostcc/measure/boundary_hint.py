"""Makes a job's boundary hint: what separates its iterations, measured over many of them.

The kernel sees one silence at a time and has to decide at once whether it ends an iteration.  The
profile has seen many iterations whole: how long silences are between and within them, and how much
is sent in each.  Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from hostcc.measure.period import Period
from hostcc.measure.series import ByteSeries, Floats, cumulative, median
from hostcc.model import BoundaryHint

MIN_ITERATIONS = 5
"""Without so many iterations no hint is made."""
NEAR_START = 0.125
"""The silence before an iteration is the longest one so near to its start, over the period."""
REGULAR = 0.25
"""Only iterations count whose length differs by at most this fraction from the period."""
MIN_REGULAR = 0.6
"""And only when so many of all iterations are such."""
LOW, HIGH = 0.05, 0.95
"""Quantiles that stand for the shortest and the longest silence: single ones may be anything."""
LONG, ALIKE = 0.9, 0.4
"""This quantile of the silences between iterations is no longer than the usual one over the second,
and the shortest no shorter than as much of it: they would be those between and within iterations,
as where half of one was taken for a whole."""
MAX_WITHIN = 1.25
"""Silences within iterations that are longer than those between by more than this are not
understood: there is no hint then."""
CLEAR = 1.2
"""The silence of a hint is longer than those within iterations by at least this."""
MIN_PAUSE_S, PAUSE_SHARE = 0.002, 0.25
"""The pause of a hint: at least the first, seconds, and this fraction of the silences between."""
MIN_SILENCE_BINS = 2
"""Bins without a byte that are a silence."""
SMALL = 1 / 32
"""Share of an iteration's bytes that is no burst of its own: control messages."""
MAX_MARGIN, MIN_MARGIN = 0.125, 1 / 64
"""Of the margin, over the iteration's bytes; with less it is 0."""
RETRANSMITTED_LOW = 0.25
"""Quantile of iterations' bytes that is taken for the bytes of one: what is lost is counted again
by the meter, not by the kernel."""


@dataclass(frozen=True, eq=False)
class _Silences:
    """Stretches in which a host sends nothing, in bins; shape (k,) each."""

    begins: Floats
    ends: Floats

    @property
    def lengths(self) -> Floats:
        return self.ends - self.begins

    def part(self, first: float, last: float) -> _Silences:
        """Those that overlap this stretch."""
        kept = (self.ends > first) & (self.begins < last)
        return _Silences(self.begins[kept], self.ends[kept])


@dataclass(frozen=True, eq=False)
class _Shape:
    """One iteration as this host has sent it."""

    silence: float
    """Before it, bins."""
    pauses: Floats
    """Silences in it, bins."""
    before: Floats
    """Bytes before each of these."""
    bytes: float
    """In the whole iteration."""

    @property
    def within(self) -> float:
        """The longest silence in it, bins; 0: none."""
        return float(self.pauses.max(initial=0.0))

    def nearest(self, pause: float) -> float:
        """Bytes between an end of it and the next silence of so many bins; all without any.

        A message of a few bytes does not count: whether it is of this iteration or the next one
        makes no difference.
        """
        away = np.minimum(self.before, self.bytes - self.before)
        counts = (self.pauses >= pause) & (away >= SMALL * self.bytes)
        return float(away[counts].min(initial=self.bytes))


def boundary_hint(of: ByteSeries, found: Period) -> BoundaryHint | None:
    """The hint for a job with this period, found in this series; None when they do not tell it.

    None, too, for a host that sends nothing, or has silences within iterations that are longer
    than those between.
    """
    if found.period_s is None or found.starts is None:
        return None
    period = found.period_s / of.bin_s
    shapes = _shapes(of, found.starts, period)
    if len(shapes) < max(MIN_ITERATIONS, MIN_REGULAR * (len(found.starts) - 1)):
        return None
    silences = np.array([one.silence for one in shapes]) * of.bin_s
    between, usual, longest = (float(np.quantile(silences, at)) for at in (LOW, 0.5, LONG))
    if between < ALIKE * usual or longest > usual / ALIKE:
        return None
    within = float(np.quantile([one.within for one in shapes], HIGH)) * of.bin_s
    if within > MAX_WITHIN * between:
        return None
    silence_s = max((within + between) / 2, CLEAR * within, MIN_PAUSE_S)
    pause_s = min(max(PAUSE_SHARE * between, MIN_PAUSE_S), silence_s)
    sent = float(np.quantile([one.bytes for one in shapes], RETRANSMITTED_LOW))
    return BoundaryHint(
        period_s=found.period_s,
        silence_s=silence_s,
        pause_s=pause_s,
        bytes=sent,
        margin_bytes=_margin(shapes, sent, pause_s / of.bin_s),
    )


def _shapes(of: ByteSeries, starts: Floats, period: float) -> list[_Shape]:
    """The iterations between these starts that are about as long as the period."""
    silences, sums = _silences(of.tx), cumulative(of.tx)
    edges = [_at(silences, float(start), NEAR_START * period) for start in starts]
    found = []
    for begin, end in pairwise(edges):
        if begin is None or end is None or abs((end[1] - begin[1]) / period - 1) > REGULAR:
            continue
        inside = silences.part(begin[1] + 1, end[0] - 1)
        total = float(sums[int(end[0])] - sums[int(begin[1])])
        before = sums[inside.begins.astype(int)] - sums[int(begin[1])]
        found.append(_Shape(begin[1] - begin[0], inside.lengths, before, total))
    return [one for one in found if one.bytes > 0]


def _silences(sent: np.ndarray[tuple[int], np.dtype[np.int64]]) -> _Silences:
    quiet = np.concatenate(((False,), sent == 0, (False,))).astype(np.int8)
    edges = np.flatnonzero(np.diff(quiet)).astype(np.float64)
    begins, ends = edges[::2], edges[1::2]
    long = ends - begins >= MIN_SILENCE_BINS
    return _Silences(begins[long], ends[long])


def _at(silences: _Silences, start: float, near: float) -> tuple[float, float] | None:
    """Begin and end of the longest silence near a start; None without any."""
    some = silences.part(start - near, start + near)
    if not len(some.begins):
        return None
    longest = int(some.lengths.argmax())
    return float(some.begins[longest]), float(some.ends[longest])


def _margin(shapes: list[_Shape], sent: float, pause: float) -> float:
    """By how much the bytes at an iteration's end may differ from `sent`: less than they do at the
    silences of at least `pause` bins next to it."""
    nearest = float(np.quantile([one.nearest(pause) for one in shapes], LOW))
    scatter = median(np.abs(np.array([one.bytes for one in shapes]) - sent))
    margin = min(nearest / 2, MAX_MARGIN * sent)
    return margin if margin >= max(MIN_MARGIN * sent, scatter) else 0.0
