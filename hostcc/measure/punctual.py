"""A job that goes on as it did and is silent for most of the time: looked at by its few full bins.

Like `steady`, for less: where each iteration is follows from the middle of its bytes, and not from
what the pattern explains at each place.
"""

from __future__ import annotations

import numpy as np

from hostcc.measure.cells import Cells
from hostcc.measure.changes import Iteration, Reference
from hostcc.measure.series import Floats, Ints, cumulative

FEWEST = 3
"""Iterations without which nothing is said."""
MOVED, SPREAD = 0.1, 0.05
"""Periods by which the middle of an iteration's bytes may be elsewhere than the pattern's, and by
which they may be nearer to it or farther from it."""


def punctual(of: Cells, begin: float, known: Reference, first: int = 0) -> list[Iteration]:
    """The iterations from `begin` (bins) on, up to the first that is not as the reference's are.

    The last one is not among them: it ends where the next one begins.  None where all have to be
    looked at more closely.  `first`: the place of the first bin, which theirs are counted from.
    """
    period = known.period
    count = int((len(of) - begin) / period)
    if count < FEWEST:
        return []
    at: Floats = of.at.astype(np.float64) + (0.5 - begin)
    values = (of.sent + of.received).astype(np.float64)
    above = np.clip(values - known.floor, 0.0, known.cap)
    middle, _ = _middles(at, above, np.arange(count + 1, dtype=np.float64) * period)
    # The clock is right for the first ones only: each begins so long before its middle.
    starts = middle - middle[0]
    if not (np.diff(starts) > 0).all():  # also where there is nothing, which is no number
        return []
    middle, spread = _middles(at, above, np.append(starts, starts[-1] + period))
    starts = middle - middle[0]
    where, width = shape(known)
    lengths = np.diff(starts) / period
    edges = np.searchsorted(at, np.append(starts, starts[-1] + period))
    sent = _sums(values, edges) / max(known.sent, 1.0)
    loud = np.clip((values - known.floor) / max(known.quiet, 1e-300), 0.0, 1.0)
    silent = lengths - _sums(loud, edges)[:-1] / period
    usual = (
        (np.abs(lengths - 1) <= known.interval_tolerance)
        & (np.abs(silent - known.silent) <= known.silent_tolerance)
        & (np.abs(sent - 1) <= known.bytes_tolerance)[:-1]
        & (np.abs(spread - width) <= SPREAD * period)[:-1]
        # What follows tells where it ends.
        & (np.abs(sent - 1) <= known.bytes_tolerance)[1:]
    )
    passed = len(usual) if usual.all() else int(usual.argmin())
    if passed + 1 < FEWEST or abs(middle[0] - where) > MOVED * period:
        return []
    places = (starts + (first + begin)).tolist()
    every = zip(places, lengths.tolist(), sent.tolist(), silent.tolist(), strict=False)
    return [Iteration(*one) for one, _ in zip(every, range(passed), strict=False)]


def _middles(at: Floats, above: Floats, edges: Floats) -> tuple[Floats, Floats]:
    """Mean and deviation of where bytes are between edges, shape (edges - 1,); nan: there are none.

    `at`: places of `above`, in order.
    """
    count = len(edges) - 1
    number = np.searchsorted(edges, at, side="right")
    inside = slice(*np.searchsorted(number, (1, count + 1)).tolist())
    number, at, above = number[inside] - 1, at[inside], above[inside]
    _, middle, spread = moments(number, above, at, count)
    return middle, spread


def moments(group: Ints, weight: Floats, at: Floats, groups: int) -> tuple[Floats, Floats, Floats]:
    """What the weights of each group sum up to, and mean and deviation of where they are.

    Shapes (groups,); the last two are nan where there is nothing.
    """
    total = np.asarray(np.bincount(group, weight, groups), np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.bincount(group, weight * at, groups) / total
        square = np.bincount(group, weight * (at - mean[group]) ** 2, groups) / total
    return total, mean, np.sqrt(square)


def _sums(values: Floats, edges: Ints) -> Floats:
    found: Floats = np.diff(cumulative(values)[edges])
    return found


def shape(known: Reference) -> tuple[float, float]:
    """Mean and deviation of where the pattern's bytes are, bins from its begin."""
    weight = np.maximum(known.pattern, 0.0)
    scale = known.period / len(weight)
    at = (np.arange(len(weight)) + 0.5) * scale
    total = max(float(weight.sum()), 1e-300)
    middle = float(at @ weight) / total
    return middle, float(np.sqrt((at - middle) ** 2 @ weight / total))
