"""A job that goes on as it did: its iterations looked at all at once.

`changes.following` finds one iteration after the other and says what each is like, whatever it is
like.  Where each begins on time, sends what it should and is silent for as long as it should, the
same comes out of one pass over all of them, for a fraction of the time.
"""

from __future__ import annotations

import math
from itertools import islice

import numpy as np

from hostcc.measure import punctual
from hostcc.measure.changes import EARLIEST, LATEST, LEAST_GAIN, SILENCE, Iteration, Reference
from hostcc.measure.history import History
from hostcc.measure.likeness import GAIN_RANGE, TOLERANCE
from hostcc.measure.period import between
from hostcc.measure.series import Bins, Floats, cumulative, part, smoothed
from hostcc.measure.tracking import SMOOTHING, STEP_COST, at_resolution

FEWEST = 6.0
"""Periods without which it is not worth while."""


def steady(of: Bins, start: float, known: Reference) -> list[Iteration]:
    """The iterations from `start` (bins) on, up to the first that is not as the reference's are.

    They are those that `following` finds.  The last ones, after which less has come than could
    tell another story, are left to it.
    """
    first = max(0, int(start))
    if len(of) - first < punctual.FEWEST * known.period:
        return []
    if isinstance(of, History) and (few := of.cells(first)).few:
        passed = punctual.punctual(few, start - first, known, first)
        if passed:
            return passed
    if len(of) - first < FEWEST * known.period:
        return []
    values = part(of, first).total
    begins = _begins(values, start - first, known)
    sums = cumulative(values)
    lengths = np.diff(begins) / known.period
    sent = np.diff(between(sums, begins)) / max(known.sent, 1.0)
    silence = cumulative(np.clip(1.0 - (values - known.floor) / max(known.quiet, 1e-300), 0.0, 1.0))
    silent = np.diff(between(silence, begins)) / known.period
    # Where nothing is sent after it `following` looks farther.
    idle = known.floor * (LATEST - 1.0) * known.period
    after = between(sums, begins + LATEST * known.period) - between(sums, begins + known.period)
    usual = (
        (np.abs(lengths - 1) <= known.interval_tolerance)
        & (np.abs(silent - known.silent) <= known.silent_tolerance)
        & (np.abs(sent - 1) <= known.bytes_tolerance)
        & (after[:-1] - idle >= SILENCE * known.sent)
    )
    count = len(usual) if usual.all() else int(usual.argmin())
    places = (begins + first).tolist()
    found = zip(places, lengths.tolist(), sent.tolist(), silent.tolist(), strict=False)
    return [Iteration(*one) for one in islice(found, count)]


def _begins(values: Floats, begin: float, known: Reference) -> Floats:
    """Where iterations begin, as far as the next one's latest begin has been seen; bins.

    `values`: bytes per bin; `begin`: of the first, bins.  Shape (iterations + 1,).
    """
    period = known.period
    above = np.minimum(np.maximum(values - known.floor, 0.0), known.cap)
    fine, factor = at_resolution(smoothed(above, max(2, round(period / SMOOTHING))), period)
    gains = _gains(fine, known.pattern)
    found = [begin]
    near, cost = _costs(begin / factor, period / factor)
    # All but the first begin at a place of the series, so that the costs are the same.
    ahead, costs = _costs(0.0, period / factor)
    while near + len(cost) < len(gains):
        seen = gains[near : near + len(cost)]
        best = int((seen - cost).argmax())
        if seen[best] < LEAST_GAIN:
            break
        found.append((near + best) * factor)
        near, cost = near + best + ahead, costs
    return np.array(found)


def _costs(at: float, period: float) -> tuple[int, Floats]:
    """The first place at which an iteration may begin, and what it and those after it cost.

    The iteration before begins `at`; in places of the series, as `period` is.
    """
    near = math.ceil(at + EARLIEST * period)
    far = int(at + LATEST * period)
    away = ((np.arange(near, far + 1) - at) / period - 1) / TOLERANCE
    return near, STEP_COST * np.minimum(away * away, 1.0)


def _gains(values: Floats, pattern: Floats) -> Floats:
    """How much the pattern explains at each place where all of it can be seen; at most 1."""
    if len(values) < len(pattern):
        return np.zeros(0)
    match = np.correlate(values, pattern, mode="valid") / max(float(pattern @ pattern), 1e-300)
    scale = np.clip(match, *GAIN_RANGE)
    found: Floats = np.minimum(scale * (2 * match - scale), 1.0)
    return found
