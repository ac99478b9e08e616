"""One iteration as rates over its phase: cut out, averaged, searched for silence."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hostcc.measure.series import Floats

QUIET = 0.1
"""A job is silent below this fraction of the pattern's height above its lowest rate."""


def sampled(sums: Floats, starts: Floats, period: float, width: int) -> Floats:
    """Mean rates of `width` equal parts of the periods from `starts` on, which need not be
    whole bins; shape (starts, width)."""
    edges = starts[:, None] + np.arange(width + 1) * (period / width)
    found: Floats = np.diff(np.interp(edges, np.arange(len(sums)), sums), axis=1)
    return found * (width / period)


def mean_of(pieces: Floats) -> Floats:
    """The mean of the pieces without the fifth that is farthest from the median."""
    distance = ((pieces - np.median(pieces, axis=0)) ** 2).sum(axis=1)
    kept = np.argsort(distance, kind="stable")[: most_of(len(pieces))]
    result: Floats = pieces[kept].mean(axis=0)
    return result


def most_of(count: int) -> int:
    """How many of `count` iterations have to be alike: checkpoints and stragglers are not."""
    return count - count // 5


def quiet_phases(pattern: Floats) -> npt.NDArray[np.bool_]:
    """Where a pattern is near its lowest rate; shape (width,)."""
    least = float(pattern.min())
    found: npt.NDArray[np.bool_] = pattern <= least + QUIET * (float(pattern.max()) - least)
    return found


def longest_silence(pattern: Floats) -> tuple[int, int]:
    """Middle and length of the longest silence of one iteration, going round, in bins.

    The middle is counted from the pattern's begin, backwards when that is shorter.
    """
    width = len(pattern)
    quiet = quiet_phases(pattern)
    if quiet.all():
        return 0, width
    offset = int(np.argmin(quiet))  # of a bin that is not quiet: nothing goes round it
    changes = np.diff(np.concatenate(((0,), np.roll(quiet, -offset).astype(np.int8), (0,))))
    begins, ends = np.flatnonzero(changes > 0), np.flatnonzero(changes < 0)
    longest = int((ends - begins).argmax())
    middle = ((int(begins[longest]) + int(ends[longest])) // 2 + offset) % width
    return (
        middle if middle <= width // 2 else middle - width,
        int(ends[longest] - begins[longest]),
    )
