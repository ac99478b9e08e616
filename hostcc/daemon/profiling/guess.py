"""How a job might iterate, from too little to know: bursts between silences, or a mere rate.  Pure.

A job whose iterations are not alike, because it collides with others, has no certain period for
a long time.  What it sends counts meanwhile, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hostcc.measure.period import between
from hostcc.measure.series import Bins, ByteSeries, cumulative, median, part
from hostcc.measure.silences import bursts

LEAST_S, RATE_S = 0.5, 2.0
"""Seconds of bins without which nothing is guessed, and without which a rate says nothing."""
WINDOW_S = 8.0
"""Of the newest bins, seconds, that say what a job sends of which nothing else is known."""
NOMINAL_S = 1.0
"""Iteration of a job that never falls silent, or of which too little was seen."""
QUIET = 0.05
"""Part of the mean rate up to which a bin counts as silent."""
STRAY = 0.01
"""Bursts with less than this fraction of a usual burst's bytes end no silence: what was lost, or
whose acknowledgement was, is sent again while the job computes."""
LONG = 0.5
"""Silences that are at least so long, against the longest ones, are between iterations."""
LONGEST = 3
"""The middle one of so many says how long the longest are: one alone may be an accident."""
FEWEST = 2
"""Such silences, without which they say nothing."""
SHORT_S, SHORT = 0.004, 0.05
"""Seconds, and part of an iteration, below which a silence is none."""


@dataclass(frozen=True)
class Guess:
    """What an iteration may be."""

    period_s: float
    silent_s: float
    """Of it, before it sends; 0: it sends all the time."""
    tx_bytes: float
    """Per iteration."""


def guess(levels: Sequence[Bins]) -> Guess | None:
    """From a job's bins in several lengths, the shortest first; None: too little was seen.

    Shorter bins see more; longer ones go back further, and are asked where those find nothing.
    """
    known = [level for level in levels if len(level) * level.bin_s >= LEAST_S]
    for level in known:
        found = _by_silences(level.whole())
        if found is not None:
            return found
    return _by_rate(known[0]) if known and len(known[0]) * known[0].bin_s >= RATE_S else None


def _by_silences(of: ByteSeries) -> Guess | None:
    total = of.total
    high = total > QUIET * total.mean()
    if not high.any() or high.all():
        return None
    found = bursts(total, high, least=STRAY)
    begin, length = found.ends[:-1], found.begins[1:] - found.ends[:-1]
    if len(length) < FEWEST:
        return None
    among_longest = np.sort(length)[-LONGEST:]
    longest = among_longest[len(among_longest) // 2]
    among = length >= max(LONG * longest, SHORT_S / of.bin_s)
    begin, length = begin[among], length[among]
    if len(begin) < FEWEST:
        return None
    period = median(np.diff(begin))
    silent = median(length)
    if silent < SHORT * period:
        return None
    sent = median(np.diff(between(cumulative(of.tx), begin)))
    return Guess(period * of.bin_s, silent * of.bin_s, sent) if sent > 0 else None


def _by_rate(of: Bins) -> Guess | None:
    lately = part(of, max(0, len(of) - int(WINDOW_S / of.bin_s)))
    sent = float(lately.tx.sum()) / (len(lately) * of.bin_s) * NOMINAL_S
    return Guess(NOMINAL_S, 0.0, sent) if sent > 0 else None
