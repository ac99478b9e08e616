"""How well jobs fit on one link, and the rotation at which they do (equations 4.1 to 4.4).

score = 1 - mean over angles of max(0, demand - capacity) / capacity, 1 at best; negative when
the jobs cannot fit.  Few combinations: branch and bound, exact on the angles looked at, because
adding a job never lowers the excess.  Many: one job after the other to its best angle, from
several starting orders, until nothing changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hostcc.schedule.cassini import circle as circles
from hostcc.schedule.cassini.circle import Circle, Pattern
from hostcc.schedule.errors import ViewError
from hostcc.schedule.problem import Floats

EXACT_NODES = 3000
"""Partial rotations that branch and bound looks at before it is given up."""
STARTS = 4
SWEEPS = 20
SAME = 1e-12


@dataclass(frozen=True)
class Fit:
    """The best rotation that was found for the jobs of a link."""

    score: float
    shifts: tuple[float, ...]
    """Seconds that each job starts later, within its period (equation 4.5)."""
    circle: Circle
    exact: bool
    """Whether no other rotation, on the angles looked at, has a better score."""


def fit(
    patterns: Sequence[Pattern],
    capacity: float,
    *,
    tolerance: float = circles.TOLERANCE,
    angles: int = circles.POINTS,
) -> Fit:
    """Rotate the jobs of a link of `capacity` bytes/s against each other.

    The first job in order of names stays where it is.  Raises ViewError for patterns and
    capacities that cannot be, and for periods without a common multiple.
    """
    if not 0 < capacity <= 1e30:
        raise ViewError(f"link: capacity: expected bytes/s above 0, got {capacity}")
    if not patterns:
        raise ViewError("link: expected at least one job")
    for pattern in patterns:
        circles.check(pattern)
    order = sorted(range(len(patterns)), key=lambda index: patterns[index].job)
    ordered = [patterns[index] for index in order]
    circle = circles.unified([pattern.period for pattern in ordered], tolerance)
    count = circles.points(circle.turns, angles)
    curves = [
        circles.demand(pattern, turns, count)
        for pattern, turns in zip(ordered, circle.turns, strict=True)
    ]
    spans = circles.steps_of(circle.turns, count).tolist()
    steps, least, exact = _search(curves, spans, capacity, count)
    shifts = [0.0] * len(patterns)
    for place, step in enumerate(steps):
        shifts[order[place]] = (step / count * circle.perimeter) % ordered[place].period
    turns = [0] * len(patterns)
    for place, index in enumerate(order):
        turns[index] = circle.turns[place]
    shown = Circle(circle.perimeter, tuple(turns), circle.error)
    return Fit(1.0 - least, tuple(shifts), shown, exact)


def _search(
    curves: list[Floats], spans: list[int], capacity: float, count: int
) -> tuple[list[int], float, bool]:
    unit = count * capacity
    # Whatever the rotation, what is asked for in all is above what fits by this much.
    floor = max(0.0, (float(sum(curve.sum() for curve in curves)) - unit) / unit)
    steps, least = _descend(curves, spans, capacity, floor)
    if least <= floor + SAME:
        return steps, least, True
    return _Branch(curves, spans, capacity, steps, least, floor).run()


def _table(curve: Floats, span: int) -> Floats:
    """(span, count) a job's curve at every rotation."""
    count = len(curve)
    index = (np.arange(count)[None, :] - np.arange(span)[:, None]) % count
    return np.asarray(curve[index])


def _descend(
    curves: list[Floats], spans: list[int], capacity: float, floor: float
) -> tuple[list[int], float]:
    """Coordinate descent from several orders of insertion."""
    count = len(curves)
    tables = [_table(curve, span) for curve, span in zip(curves, spans, strict=True)]
    busiest = sorted(range(1, count), key=lambda job: (-float(curves[job].sum()), job))
    orders = [busiest, list(range(1, count)), busiest[::-1], list(range(count - 1, 0, -1))]
    best, least = [0] * count, np.inf
    for order in orders[:STARTS]:
        steps, total = [0] * count, curves[0].copy()
        for job in order:
            steps[job], _ = _place(total, tables[job], capacity)
            total = total + tables[job][steps[job]]
        value = circles.excess(total, capacity)
        for _ in range(SWEEPS):
            before = value
            for job in order:
                rest = total - tables[job][steps[job]]
                step, found = _place(rest, tables[job], capacity)
                if found < value - SAME:
                    steps[job], value = step, found
                    total = rest + tables[job][step]
            if value >= before - SAME:
                break
        if value < least - SAME:
            best, least = steps, value
        if least <= floor + SAME:
            break
    return best, float(least)


def _place(rest: Floats, table: Floats, capacity: float) -> tuple[int, float]:
    """The first best rotation of a job beside the others, and the excess then."""
    over = np.maximum(table + (rest - capacity), 0.0).sum(axis=1)
    step = int(np.flatnonzero(over <= over.min() * (1 + SAME))[0])
    return step, float(over[step] / (table.shape[1] * capacity))


class _Branch:
    """Depth first over the jobs, rotations in order of the excess so far."""

    def __init__(
        self,
        curves: list[Floats],
        spans: list[int],
        capacity: float,
        steps: list[int],
        least: float,
        floor: float,
    ) -> None:
        # Large demands first: they decide most.
        self.order = sorted(range(1, len(curves)), key=lambda job: (-float(curves[job].sum()), job))
        self.tables = [_table(curve, span) for curve, span in zip(curves, spans, strict=True)]
        self.first, self.capacity, self.floor = curves[0], capacity, floor
        rest = [float(curves[job].sum()) for job in self.order]
        self.later = [sum(rest[depth + 1 :]) for depth in range(len(rest))]
        self.best, self.least = list(steps), least
        self.nodes = EXACT_NODES
        self.steps = [0] * len(curves)

    def run(self) -> tuple[list[int], float, bool]:
        self._down(0, self.first)
        return self.best, self.least, self.nodes > 0

    def _down(self, depth: int, total: Floats) -> None:
        if depth == len(self.order):
            return
        job = self.order[depth]
        table = self.tables[job]
        self.nodes -= 1
        size = table.shape[1] * self.capacity
        sums = table + total
        over = np.maximum(sums - self.capacity, 0.0).sum(axis=1) / size
        # What the later jobs send, beyond the room that is left, is above capacity too.
        room = np.maximum(self.capacity - sums, 0.0).sum(axis=1)
        bound = over + np.maximum(self.later[depth] - room, 0.0) / size
        for step in np.argsort(bound, kind="stable").tolist():
            if bound[step] >= self.least - SAME or self.nodes <= 0:
                return
            self.steps[job] = step
            if depth == len(self.order) - 1:
                self.best, self.least = list(self.steps), float(over[step])
                return
            self._down(depth + 1, sums[step])
