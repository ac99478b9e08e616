"""The unified circle: a length of time into which every job fits a whole number of iterations.

For exact periods it is their least common multiple. Measured periods are never exact, so each may
deviate by a tolerance. The circle is the shortest perimeter p with integers r_j such that p / r_j
is within the tolerance of each period.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hostcc.schedule.errors import ViewError
from hostcc.schedule.problem import Floats, Ints

PERIOD_TOLERANCE = 0.01
"""Relative deviation of a period that is accepted."""
MAX_ROUNDS = 1000
"""Iterations of the slowest job in the circle."""
MAX_SECONDS = 1e9
MIN_TOLERANCE = 1e-9
"""Relative rounding error of the arithmetic itself."""
MIN_POINTS = 72
"""Angles on the circle, at least: 5 degrees apart (thesis, section 4.5)."""
MAX_POINTS = 4096


@dataclass(frozen=True)
class Circle:
    """The perimeter, and how often each job iterates in it."""

    perimeter: float
    """Seconds."""
    turns: tuple[int, ...]
    """r_j: iterations of job j in the perimeter."""
    error: float
    """Largest relative difference between perimeter / r_j and a period."""


def unified_circle(periods: Sequence[float], tolerance: float = PERIOD_TOLERANCE) -> Circle:
    """Return the shortest circle of `periods` (seconds), each within `tolerance` (relative).

    Raises ViewError for periods that are not positive numbers, and if MAX_ROUNDS iterations of the
    slowest job are not enough.
    """
    if not periods or not all(0 < p <= MAX_SECONDS and math.isfinite(p) for p in periods):
        raise ViewError(f"period: expected seconds above 0 and at most {MAX_SECONDS:g}")
    if not 0 <= tolerance < 0.5:
        raise ViewError(f"tolerance: expected 0 to 0.5, got {tolerance}")
    slack = max(tolerance, MIN_TOLERANCE)
    longest = max(periods)
    perimeter = longest * (1 - slack)
    while perimeter <= longest * MAX_ROUNDS * (1 + slack):
        following = max(_next(perimeter, period, slack) for period in periods)
        if following <= perimeter * (1 + 1e-15):
            return _fitted(perimeter, periods, slack)
        perimeter = following
    raise ViewError(
        f"periods: expected a common multiple within {MAX_ROUNDS} iterations of the slowest "
        f"job and a tolerance of {tolerance:g}, found none"
    )


def _next(perimeter: float, period: float, slack: float) -> float:
    """Return the least perimeter from here on that `period` divides within the tolerance."""
    turns = max(1, math.ceil(perimeter / (period * (1 + slack)) * (1 - 1e-12)))
    return max(perimeter, turns * period * (1 - slack))


def _fitted(perimeter: float, periods: Sequence[float], slack: float) -> Circle:
    """Return the circle with the turns for this perimeter, at the perimeter that fits them best."""
    turns = tuple(max(1, round(perimeter / period)) for period in periods)
    turns = tuple(
        t if abs(perimeter / (t * p) - 1) <= slack * (1 + 1e-6) else _other(perimeter, p, t)
        for t, p in zip(turns, periods, strict=True)
    )
    exact = [turn * period for turn, period in zip(turns, periods, strict=True)]
    best = 2 / (1 / min(exact) + 1 / max(exact))
    if max(exact) <= min(exact) * (1 + 4 * MIN_TOLERANCE):
        best = max(exact)
    return Circle(best, turns, max(abs(best / value - 1) for value in exact))


def _other(perimeter: float, period: float, turns: int) -> int:
    """Return the neighbouring number of turns if its relative error is smaller."""
    near = (max(1, turns - 1), turns, turns + 1)
    return min(near, key=lambda turn: abs(perimeter / (turn * period) - 1))


def angle_count(turns: Sequence[int], least: int = MIN_POINTS) -> int:
    """Return how many angles to use: a multiple of all turns if that is at most MAX_POINTS."""
    common = math.lcm(*turns)
    if common > MAX_POINTS:
        return MAX_POINTS
    return common * max(1, -(-least // common))


@dataclass(frozen=True)
class Pattern:
    """The demand of a job on one link during an iteration."""

    job: str
    period: float
    """Seconds."""
    phases: tuple[tuple[float, float, float], ...]
    """(start, end, bytes/s) within the iteration, not overlapping; 0 elsewhere."""


def check(pattern: Pattern) -> None:
    """Check a pattern. Raises ViewError."""
    if not 0 < pattern.period <= MAX_SECONDS:
        raise ViewError(f"job: {pattern.job}: period: expected seconds above 0")
    last = 0.0
    for start, end, rate in pattern.phases:
        if not last <= start <= end <= pattern.period * (1 + 1e-9):
            raise ViewError(f"job: {pattern.job}: phases: expected them in order, in one period")
        if not 0 <= rate <= 1e30:
            raise ViewError(f"job: {pattern.job}: phases: expected rates of at least 0")
        last = end


def demand(pattern: Pattern, turns: int, count: int) -> Floats:
    """Return (count,) mean bytes/s in each of `count` equal parts of the circle (equation 4.2).

    Means instead of samples, so that the sum over all parts is what the job sends.
    """
    edges = np.arange(count + 1) * (turns / count)
    whole = np.floor(edges + 1e-12)
    rest = np.clip(edges - whole, 0.0, 1.0) * pattern.period
    sent = np.zeros(count + 1)
    total = 0.0
    for start, end, rate in pattern.phases:
        sent += rate * np.clip(rest - start, 0.0, end - start)
        total += rate * (end - start)
    sent += whole * total
    return np.asarray(np.diff(sent) * (count / (turns * pattern.period)))


def excess(total: Floats, capacity: float) -> float:
    """Return the demand above the capacity, averaged over angles, as a fraction (equation 4.4)."""
    over = np.maximum(total - capacity, 0.0).sum()
    return float(over / (len(total) * capacity))


def rotation_counts(turns: Sequence[int], count: int) -> Ints:
    """Return the number of distinct shifts of each job on `count` angles (equation 4.3)."""
    return np.array([max(1, -(-count // turn)) for turn in turns], np.int64)
