"""Lays the iterations of a link's jobs over each other, on the circle of their common period.

Says how well they fit (Cassini's score), where they collide, and who waits for whom.  Pure: it
needs nothing but the row of the link that an agent answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hostcc.answers.links import Compatibility, LinkJob, LinkRow, Wait
from hostcc.schedule.cassini import circle as circles
from hostcc.schedule.cassini import compatibility
from hostcc.schedule.cassini.circle import Circle, Pattern
from hostcc.schedule.errors import ViewError
from hostcc.schedule.intensity import FULL
from hostcc.schedule.problem import TINY_S, Floats
from hostcc.schedule.shifts import MAX_TURNS

MAX_JOBS = 16
"""Jobs on a circle; with more nothing can be seen on it, and the search takes long."""
MAX_ROTATIONS = 60
"""Partial rotations that the optimiser tries for a link."""
ANGLES = 360
"""On the circle, at least: bursts of a tenth, an eighth or a ninth of it end at one of them."""
Arc = tuple[float, float]
"""Start and end, as fractions of the circle; the end is at most 1 beyond the start."""


@dataclass(frozen=True)
class JobArcs:
    """One job on the circle."""

    job: str
    level: int
    turns: int
    """Iterations in the common period."""
    share: float
    """Of the link's capacity while it sends."""
    up: tuple[Arc, ...]
    """When it sends, if all iterations begin at once."""
    shift: float
    """Fraction of the circle by which it is turned to fit best."""


@dataclass(frozen=True)
class LinkCircle:
    """The jobs of one link on the circle of their common period."""

    link: str
    perimeter_s: float
    jobs: tuple[JobArcs, ...]
    together: float
    """Score if all iterations begin at once."""
    score: float
    """Score if each job is turned by its shift."""
    exact: bool
    collisions: tuple[Arc, ...]
    """Where more is sent than the link carries, if all iterations begin at once."""
    left: tuple[Arc, ...]
    """The same if each job is turned by its shift."""


def link_circle(row: LinkRow) -> LinkCircle | str:
    """Return the circle of a link, or why there is none."""
    jobs = row.sharing
    if row.jobs > MAX_JOBS:
        return f"more than {MAX_JOBS} jobs"
    if len(jobs) < 2:
        return "one job"
    patterns = [_pattern(one) for one in jobs]
    if any(pattern is None for pattern in patterns):
        return "an iteration time is unknown"
    known = [pattern for pattern in patterns if pattern is not None]
    try:
        found = compatibility.fit(known, 1.0, angles=ANGLES, nodes=MAX_ROTATIONS)
        if max(found.circle.turns) > MAX_TURNS:
            return "the iteration times have no short common multiple"
    except ViewError:
        return "the iteration times have no common multiple"
    circle, none = found.circle, (0.0,) * len(jobs)
    each = zip(jobs, known, circle.turns, found.shifts, strict=True)
    at_once = _total(known, circle, none)
    return LinkCircle(
        link=row.link,
        perimeter_s=circle.perimeter,
        jobs=tuple(
            JobArcs(
                one.job, one.level, turns, one.share, _up(pattern, turns), shift / circle.perimeter
            )
            for one, pattern, turns, shift in each
        ),
        together=1.0 - circles.excess(at_once, 1.0),
        score=found.score,
        exact=found.exact,
        collisions=_above(at_once),
        left=_above(_total(known, circle, found.shifts)),
    )


def judged(row: LinkRow) -> Compatibility:
    """Return the same as figures."""
    found = link_circle(row)
    if isinstance(found, str):
        return Compatibility(
            score=None, together=None, perimeter_s=None, exact=False, shifts_s={}, reason=found
        )
    return Compatibility(
        score=found.score,
        together=found.together,
        perimeter_s=found.perimeter_s,
        exact=found.exact,
        shifts_s={one.job: one.shift * found.perimeter_s for one in found.jobs},
        reason="",
    )


def waits(row: LinkRow) -> tuple[Wait, ...]:
    """Return the jobs that may wait, by their places in the plan's order.

    Two jobs meet if they need more than the link has when both send.  Where only three or more
    together do, all of them meet.
    """
    if not row.full:
        return ()
    jobs = row.sharing
    pairs = any(_meet(one, other) for one in jobs for other in jobs if one is not other)
    listed = []
    for one in jobs:
        met = [other for other in jobs if other is not one and (_meet(one, other) or not pairs)]
        before = tuple(other.job for other in met if other.level < one.level)
        beside = tuple(other.job for other in met if other.level == one.level)
        if before or beside:
            listed.append(Wait(one.job, before, beside))
    return tuple(listed)


def _meet(one: LinkJob, other: LinkJob) -> bool:
    return one.share + other.share > FULL


def _pattern(one: LinkJob) -> Pattern | None:
    if one.period_s <= TINY_S:
        return None
    end = min(one.start_s + one.communication_s, one.period_s)
    start = min(one.start_s, end)
    return Pattern(one.job, one.period_s, ((start, end, one.share),))


def _up(pattern: Pattern, turns: int) -> tuple[Arc, ...]:
    part = 1.0 / turns
    return tuple(
        ((turn + start / pattern.period) * part, (turn + end / pattern.period) * part)
        for turn in range(turns)
        for start, end, _ in pattern.phases
    )


def _total(patterns: Sequence[Pattern], circle: Circle, shifts: Sequence[float]) -> Floats:
    """Return (count,) what all jobs demand of each part of the circle."""
    count = circles.angle_count(circle.turns, ANGLES)
    total: Floats = np.zeros(count)
    for pattern, turns, shift in zip(patterns, circle.turns, shifts, strict=True):
        step = round(shift / circle.perimeter * count)
        total += np.roll(circles.demand(pattern, turns, count), step)
    return total


def _above(total: Floats) -> tuple[Arc, ...]:
    """Return where the demand is above the capacity."""
    edges = np.diff((total > FULL).astype(np.int8), prepend=0, append=0)
    starts, ends = np.flatnonzero(edges > 0), np.flatnonzero(edges < 0)
    count = len(total)
    return tuple(zip((starts / count).tolist(), (ends / count).tolist(), strict=True))
