"""Whether the end of a series is like nothing that came before it, whatever its period is.

A window of the end is compared with all windows before it, at any place, and its distance is that
to the nearest (the discords of a matrix profile: Yeh et al., ICDM 2016).  What a job did before it
changed comes again in the windows before, wherever iterations were thought to begin; what it does
afterwards does not.  Stragglers and other jobs make windows of the past unlike each other, too:
the end has to be farther from all of it than any stretch of the past was from the rest.
"""

from __future__ import annotations

import numpy as np

from hostcc.measure.series import Floats, cumulative, smoothed

WIDTH = 32
"""Values of a window, which is one period long."""
HOP = 8
"""Values from one window that is compared to the next."""
FEWEST = 12
"""Periods of the past without which nothing is new."""
NEEDED = 36
"""Values of the end without which nothing can be said."""
MARGIN, LEAST = 1.5, 0.02
"""How many times as far as any stretch of the past was; and how much farther, of the energy of a
usual window."""


def novelty(values: Floats, since: float, period: float, *, late: bool = False) -> float:
    """How much farther from the past the end is than any stretch of the past; above 1: it is new.

    `values`: rates, shape (n,); the end begins at `since`, both in bins, like `period`.  `late`:
    what is new may begin up to a period later.  0 when there is too little to say.
    """
    unit = period / WIDTH
    edges = np.arange(since % unit, len(values) + 1e-9, unit)
    rates = np.diff(np.interp(edges, np.arange(len(values) + 1), cumulative(values)))
    past = round((since - since % unit) / unit)
    first = past + WIDTH * late
    if past < FEWEST * WIDTH or len(rates) - first < NEEDED:
        return 0.0
    windows = np.lib.stride_tricks.sliding_window_view(smoothed(rates, 2), WIDTH)
    old = windows[: past - WIDTH + 1]
    before = np.arange(past - WIDTH, -1, -HOP)[::-1]
    after = np.arange(len(windows) - 1, first - 1, -HOP)[::-1]
    starts = np.concatenate((before, after))
    chosen = windows[starts]
    own, energy = np.square(chosen).sum(axis=1), np.square(old).sum(axis=1)
    apart = own[:, None] + energy - 2.0 * (chosen @ old.T)
    # A window is no news to those that it overlaps.
    apart[np.abs(starts[:, None] - np.arange(len(old))) < WIDTH] = np.inf
    nearest = apart.min(axis=1)
    # Of a stretch the window counts that is nearest: some of what is new looks like the past.
    stretches = np.lib.stride_tricks.sliding_window_view(nearest[: len(before)], len(after))
    usual = float(np.median(own[: len(before)]))
    farthest = MARGIN * float(stretches.min(axis=1).max()) + LEAST * max(usual, 1e-300)
    return float(nearest[len(before) :].min()) / farthest
