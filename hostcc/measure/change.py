"""The change detector: whether the end of a job's series is something new, or silence for good.

It needs a period, but not where iterations begin.  The end is composed of pieces of the past
(`pieces`).  Each step to another piece costs one, and so does each pause that the past does not
have.  A late worker is one pause and a checkpoint one inserted stretch, after which the job is as
before.  After a change hardly any silence or burst has its old length, and each costs a step.  The
usual cost is that of the past, composed of the rest of itself.  A new pattern repeats: it costs
less where the end may be composed of itself, too.  Disturbances differ, so they do not.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hostcc.measure.pieces import NEVER, Costs, pieced
from hostcc.measure.series import Floats, cumulative, median, smoothed

WIDTH = 32
"""Values of one period."""
SMOOTHING = 2
"""Values that rates are smoothed over: bursts meet values at different places."""
HISTORY, FEWEST = 16, 12
"""Periods of the past that pieces are from, and without which nothing is new."""
LONGEST, STRETCH = 6, 4
"""Periods at the end that are composed, and of the stretches of the past beside it."""
LEAST = 0.5
"""Periods of the end without which nothing can be said."""
MISFIT = 0.5
"""Cost of a step, in values that are wrong by the height of the bursts."""
NOISE = 4.0
"""Least cost of a step, over that of the noise of a period."""
INSERTED = 3.0
"""Steps that an inserted period costs, in addition to the step to it."""
AGAIN, TWICE = 0.4, 3.0
"""Periods after which what is new can come again; how many times a step that is saved by that
counts again."""
EDGE = 3
"""Values after the edge of a burst at which it has been seen."""
LEAST_STEP = 1e-12
"""Least cost of a step, over the square of the highest rate."""
SHORT = 0.5
"""Of the highest value of a period: bursts are at least so high."""
ENOUGH = 3.3
"""Steps beyond the usual from which on the end is new."""
CAUTION = 0.5
"""Standard deviations by which stretches of the past differ that count as usual, too."""
CEASED, CEASED_LONGEST = 6.0, 2.0
"""Periods without bytes, and multiples of its longest silence, after which a job has ceased."""
CHECK_EVERY = 16
"""Values of stretches of the past between two looks at whether they took enough already."""


def changed(values: Floats, since: float, period: float, busy: float) -> bool:
    """Whether a job has changed: it does something new from `since` on, or has ceased.

    Arguments as of `novelty`; a bin with more than `busy` is not silent.
    """
    return _ceased(values, period, busy) or novelty(values, since, period) > 1


def _ceased(values: Floats, period: float, busy: float) -> bool:
    """Whether nothing has been sent for much longer than ever before."""
    sent = np.flatnonzero(values > busy)
    longest = CEASED_LONGEST * int(np.diff(sent).max(initial=0))
    silent = len(values) - (int(sent[-1]) if len(sent) else 0)
    return silent > max(CEASED * period, longest)


def novelty(values: Floats, since: float, period: float) -> float:
    """How many more steps than usual the end takes, over those that make it new: above 1, it is.

    `values`: rates, shape (n,); the end begins at `since`, both in bins, like `period`.  Of a long
    end the last periods count.  0 when there is too little to say.  At most 1 it may be too much.
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
    high = _high(past)
    # Where nothing was sent before, anything costs a step, and no square may be too large.
    step = max(_step(past, high), LEAST_STEP * float(whole.max()) ** 2, 1e-30)
    pieces = np.concatenate((past, between[:count]))
    least = round(LEAST * WIDTH) - 1
    steps, again = _steps(end, between[first:], pieces, step)[least:].T
    beyond = steps + TWICE * _lasting(steps - again, end[least:] > high / 2)
    if float(beyond.max()) > ENOUGH:
        beyond = _unusual(beyond, np.arange(least + 1, len(end) + 1), past, pieces, step)
    return max(0.0, float(beyond.max())) / ENOUGH


def _rates(sums: Floats, edges: Floats) -> Costs:
    """Bytes between places, shape (edges - 1,); `sums`: before each bin."""
    sent = np.diff(np.interp(edges, np.arange(len(sums)), sums))
    return smoothed(sent, SMOOTHING).astype(np.float32)


def _lasting(saved: Costs, high: npt.NDArray[np.bool_]) -> Costs:
    """Steps saved until the present burst or silence began.

    While a second pause lasts it seems to be the first one again, however long it will be.
    """
    edges = np.flatnonzero(np.diff(high)) + EDGE
    known = np.append(saved[edges[edges < len(saved)]], np.float32(0))
    number = np.searchsorted(edges, np.arange(len(saved)), side="right") - 1
    return np.minimum(saved, known[number])


def _high(past: Costs) -> float:
    """The height of the bursts; where they are so short that few values see them, half of it."""
    whole = past[len(past) % WIDTH :].reshape(-1, WIDTH)
    return max(_percentile(past), SHORT * median(whole.max(axis=1)))


def _percentile(past: Costs) -> float:
    """The 90th, as numpy's, which takes ten times as long."""
    place = 0.9 * (len(past) - 1)
    lower = int(place)
    parted = np.partition(past, (lower, lower + 1))
    below, above = parted.item(lower), parted.item(lower + 1)
    return float(below + (above - below) * (place - lower))


def _step(past: Costs, high: float) -> float:
    """What a step costs, in squares of rates."""
    half = WIDTH // 2
    windows = np.lib.stride_tricks.sliding_window_view(past, half)
    starts = np.arange(0, len(windows), half)
    chosen = windows[starts]
    own, energy = np.square(chosen).sum(axis=1), np.square(windows).sum(axis=1)
    apart = own[:, None] + energy - 2 * (chosen @ windows.T)
    for row, start in zip(apart, starts.tolist(), strict=True):
        # A window says nothing of those that it overlaps.
        row[max(0, start - WIDTH + 1) : start + WIDTH] = np.inf
    noise = max(0.0, median(apart.min(axis=1))) * WIDTH / half
    return max(MISFIT * high * high, NOISE * noise)


def _steps(end: Costs, between: Costs, pieces: Costs, step: float) -> Costs:
    """The fewest steps that the end up to each value can be put together with: from `pieces` of the
    past, and from those and its own; shape (values, 2).

    `between`: half a value before those of the end.
    """
    old = len(pieces)

    def hide(number: int, costs: Costs) -> None:
        known = max(0, number + 1 - round(AGAIN * WIDTH))
        costs[0, old:] = NEVER
        costs[1, old:].reshape(2, -1)[:, known:] = NEVER

    every = np.concatenate((pieces, end, between))
    twice = np.stack((end, end), axis=1)
    return np.array(list(pieced(twice, every, step, INSERTED / WIDTH, hide)))


def _unusual(
    beyond: Costs, lengths: npt.NDArray[np.intp], past: Costs, pieces: Costs, step: float
) -> Costs:
    """Steps of ends of such lengths beyond the usual; when none is new, perhaps beyond part of it.

    Usual is what stretches of the past take, put together from what is more than a period away:
    the mean, and so many standard deviations.  `pieces`: the past, and the past between its values.
    """
    length = STRETCH * WIDTH
    first = len(past) % length
    share = lengths / length

    def hide(number: int, costs: Costs) -> None:
        place = first + number
        for halves in costs.reshape(len(costs), 2, -1):
            halves[:, max(0, place - WIDTH + 1) : place + WIDTH] = NEVER
            place += length

    stretches = past[first:].reshape(-1, length).T
    steps = np.zeros(1, np.float32)
    taken = pieced(stretches, pieces, step, INSERTED / WIDTH, hide)
    for number, steps in enumerate(taken, 1):
        # Stretches never take fewer steps than their beginnings do.
        if number % CHECK_EVERY == 0 and (beyond - steps.mean() * share).max() <= ENOUGH:
            break
    usual: Costs = steps.mean() * share + CAUTION * steps.std() * np.sqrt(share)
    return beyond - usual
