"""Whether the end of a series is something new, whatever its period is and where iterations begin.

The end is put together from pieces of the past (as haplotypes are from those of others: Li and
Stephens, Genetics 2003).  Each step to another piece costs one, and so does each pause that the
past does not have: a late worker is one pause, a checkpoint one inserted stretch, and then what
the job did before goes on.  When it does something else, hardly any silence or burst is as long as
it was, and each costs a step.  How much is usual is told by the past, put together from the rest of
itself.  What is new comes again: it costs less where the end may be put together from itself,
too.  Disturbances do not, for they differ.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hostcc.measure.series import Floats, cumulative, smoothed

WIDTH = 32
"""Values of one period."""
SMOOTHING = 2
"""Values that rates are smoothed over: bursts meet values at different places."""
HISTORY, FEWEST = 16, 12
"""Periods of the past that pieces are from, and without which nothing is new."""
LONGEST, STRETCH = 6, 4
"""Periods at the end that are put together, and of stretches of the past that it is beside."""
LEAST = 0.5
"""Periods of the end without which nothing can be said."""
MISFIT = 0.5
"""A step costs as much as so many values that are wrong by the height of the bursts."""
NOISE = 4.0
"""A step costs at least so many times what the noise of a period does."""
INSERTED = 3.0
"""What a period of anything else costs, beside the step to it."""
AGAIN, TWICE = 0.4, 3.0
"""Periods after which what is new can come again; how many times a step that is saved by that
counts again."""
EDGE = 3
"""Values after the edge of a burst at which it has been seen."""
ENOUGH = 3.3
"""Steps beyond the usual from which on the end is new."""
CAUTION = 0.5
"""Standard deviations by which stretches of the past differ that count as usual, too."""
_NEVER = np.float32(1e9)

_Costs = npt.NDArray[np.float32]


def novelty(values: Floats, since: float, period: float) -> float:
    """How many more steps than usual the end takes, over those that make it new: above 1, it is.

    `values`: rates, shape (n,); the end begins at `since`, both in bins, like `period`.  Of a long
    end the last periods count.  0 when there is too little to say.
    """
    unit = period / WIDTH
    begin = max(0, int(since - HISTORY * period))
    values, since = values[begin:], since - begin
    edges = np.arange(since % unit, len(values) + 1e-9, unit)
    count = round((since - since % unit) / unit)
    if count < FEWEST * WIDTH or len(edges) - 1 - count < LEAST * WIDTH:
        return 0.0
    sums = cumulative(values)
    whole, between = _rates(sums, edges), _rates(sums, edges - unit / 2)
    first = max(count, len(whole) - LONGEST * WIDTH)
    past, end = whole[:count], whole[first:]
    pieces = np.concatenate((past, between[:count]))
    step = _step(past)
    old = _apart(end, pieces, step)
    itself = _apart(end, np.concatenate((end, between[first:])), step)
    place = np.arange(len(end))
    itself[np.tile(place, 2) > place[:, None] - round(AGAIN * WIDTH)] = _NEVER
    least = round(LEAST * WIDTH) - 1
    steps = _pieced(old[:, None])[least:, 0]
    saved = steps - _pieced(np.hstack((old, itself))[:, None])[least:, 0]
    beyond = steps + TWICE * _lasting(saved, end[least:] > np.quantile(past, 0.9) / 2)
    if float(beyond.max()) > ENOUGH:
        stretches = np.arange(least + 1, len(end) + 1) / (STRETCH * WIDTH)
        mean, deviation = _usual(past, pieces, step)
        beyond -= mean * stretches + CAUTION * deviation * np.sqrt(stretches)
    return max(0.0, float(beyond.max())) / ENOUGH


def _rates(sums: Floats, edges: Floats) -> _Costs:
    """Bytes between places, shape (edges - 1,); `sums`: before each bin."""
    sent = np.diff(np.interp(edges, np.arange(len(sums)), sums))
    return smoothed(sent, SMOOTHING).astype(np.float32)


def _lasting(saved: _Costs, high: npt.NDArray[np.bool_]) -> _Costs:
    """What was saved until the burst or silence began that goes on.

    While a second pause lasts it seems to be the first one again, however long it will be.
    """
    edges = np.flatnonzero(np.diff(high)) + EDGE
    known = np.append(saved[edges[edges < len(saved)]], np.float32(0))
    number = np.searchsorted(edges, np.arange(len(saved)), side="right") - 1
    return np.minimum(saved, known[number])


def _step(past: _Costs) -> float:
    """What a step costs, in squares of rates."""
    half = WIDTH // 2
    windows = np.lib.stride_tricks.sliding_window_view(past, half)
    starts = np.arange(0, len(windows), half)
    chosen = windows[starts]
    own, energy = np.square(chosen).sum(axis=1), np.square(windows).sum(axis=1)
    apart = own[:, None] + energy - 2 * (chosen @ windows.T)
    # A window says nothing of those that it overlaps.
    apart[np.abs(starts[:, None] - np.arange(len(windows))) < WIDTH] = np.inf
    noise = max(0.0, float(np.median(apart.min(axis=1)))) * WIDTH / half
    high = float(np.quantile(past, 0.9))
    return max(MISFIT * high * high, NOISE * noise, 1e-30)


def _apart(values: _Costs, pieces: _Costs, step: float) -> _Costs:
    """What it costs to take each of the pieces for each of the values; shape (values, pieces)."""
    found: _Costs = np.subtract.outer(values, pieces)
    found *= found
    found *= np.float32(1 / step)
    return np.minimum(found, np.float32(1), out=found)


def _usual(past: _Costs, pieces: _Costs, step: float) -> tuple[float, float]:
    """Steps that a stretch of the past takes, put together from what is more than a period away:
    their mean and standard deviation.

    `pieces`: the past, and the past between its values.
    """
    length = STRETCH * WIDTH
    first = len(past) % length
    apart = _apart(past[first:], pieces, step)
    place = np.arange(len(past))
    apart[np.abs(place[first:, None] - np.tile(place, 2)) < WIDTH] = _NEVER
    stretches = apart.reshape(-1, length, len(pieces)).transpose(1, 0, 2)
    steps = _pieced(stretches)[-1]
    return float(steps.mean()), float(steps.std())


def _pieced(apart: _Costs) -> _Costs:
    """The fewest steps that the values up to each can be put together with.

    `apart`: what each piece costs for each value of some stretches, shape (values, stretches,
    pieces).  Shape (values, stretches).
    """
    shape = apart.shape[1:]
    best = np.zeros(shape[0], np.float32)
    # Costs when a piece goes on, when it pauses, and within something else.
    going, other = np.zeros(shape, np.float32), np.empty(shape, np.float32)
    pausing = np.full(shape, _NEVER)
    inserted = best + 1
    found = np.empty(apart.shape[:2], np.float32)
    for number, here in enumerate(apart):
        np.minimum(going[:, :-1], pausing[:, :-1], out=other[:, 1:])
        other[:, 0] = _NEVER
        np.minimum(other, (best + np.float32(number > 0))[:, None], out=other)
        other += here
        going += 1
        np.minimum(pausing, going, out=pausing)
        pausing += here
        inserted = np.minimum(inserted, best + 1) + np.float32(INSERTED / WIDTH)
        going, other = other, going
        best = np.minimum(np.minimum(going.min(axis=1), pausing.min(axis=1)), inserted)
        found[number] = best
    return found
