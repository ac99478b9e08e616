"""How long something was so within a window of the past.  Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable

MAX_SPANS = 128
"""Spans that are kept of one window; the shortest gaps between others count as part of them."""

Spans = tuple[tuple[float, float], ...]
"""From when until when, seconds; the oldest first, and the last one has no end while it lasts."""


def step(before: Spans, now: float, since: float | None, window_s: float) -> Spans:
    """Return the spans of the last `window_s` seconds; `since`: when it began to be so, None: it is
    not so at `now`."""
    kept = [span for span in before if span[1] > now - window_s]
    lasts = bool(kept) and kept[-1][1] == math.inf
    if lasts and since is None:
        kept[-1] = kept[-1][0], now
    elif not lasts and since is not None:
        kept.append((since, math.inf))
    while len(kept) > MAX_SPANS:
        at = min(range(1, len(kept)), key=lambda index: kept[index][0] - kept[index - 1][1])
        kept[at - 1 : at + 1] = [(kept[at - 1][0], kept[at][1])]
    return tuple(kept)


def total(spans: Iterable[tuple[float, float]], now: float, window_s: float) -> float:
    """Return for how many of the last `window_s` seconds it was so."""
    least = now - window_s
    return sum(max(0.0, min(end, now) - max(start, least)) for start, end in spans)
