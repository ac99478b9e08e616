"""Quantiles from the delay buckets of progs/qdisc.bcc.c.  Pure."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

PER_OCTAVE = 8


def edges_ns(index: int) -> tuple[int, int]:
    """Least and greatest delay (ns) that falls into a bucket; at most an eighth apart."""
    if index < PER_OCTAVE:
        return index, index
    octave, part = divmod(index, PER_OCTAVE)
    width = 1 << (octave - 1)
    least = (PER_OCTAVE + part) * width
    return least, least + width - 1


def quantiles_us(counts: Mapping[int, int], at: tuple[float, ...]) -> list[float] | None:
    """Quantiles (us) of bucket -> count, each the middle of its bucket; None without counts."""
    buckets = np.array(sorted(k for k, v in counts.items() if v > 0), dtype=np.int64)
    if not len(buckets):
        return None
    below = np.cumsum([counts[int(k)] for k in buckets])
    ranks = np.ceil(np.asarray(at) * below[-1]).clip(1)
    chosen = buckets[np.searchsorted(below, ranks)]
    return [sum(edges_ns(int(k))) / 2e3 for k in chosen]
