"""How well jobs fit on one link, and the rotation at which they fit best (equations 4.1 to 4.4).

score = 1 - mean over angles of max(0, demand - capacity) / capacity; 1 at best, negative when the
jobs cannot fit. Few combinations: branch and bound, exact on these angles, because adding a job
never lowers the excess. Many: each job in turn moves to its best angle, from several starting
orders, until nothing changes. Long circles are first searched at some of their angles, and then
around the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from hostcc.schedule.cassini import circle as circles
from hostcc.schedule.cassini.circle import Circle, Pattern
from hostcc.schedule.errors import ViewError
from hostcc.schedule.problem import Floats

EXACT_NODES = 3000
"""Partial rotations after which branch and bound gives up."""
EXACT_CELLS = 1 << 25
"""The same bound, multiplied by the rotations and angles that each step covers."""
FIRST_ROTATIONS = 144
"""Rotations of a job that are tried first, evenly spaced."""
START_ORDERS = 4
MAX_SWEEPS = 20
SCORE_TOLERANCE = 1e-12
ANGLES_AT_ONCE = 1 << 15
"""Angles that are computed in one go."""


@dataclass(frozen=True)
class Fit:
    """The best rotation found for the jobs of a link."""

    score: float
    shifts: tuple[float, ...]
    """Seconds by which each job starts later, within its period (equation 4.5)."""
    circle: Circle
    exact: bool
    """Whether no other rotation, on these angles, has a better score."""


def fit(
    patterns: Sequence[Pattern],
    capacity: float,
    *,
    tolerance: float = circles.PERIOD_TOLERANCE,
    angles: int = circles.MIN_POINTS,
    nodes: int = EXACT_NODES,
) -> Fit:
    """Rotate the jobs of a link of `capacity` bytes/s against each other.

    The first job by name stays where it is. `nodes` bounds the partial rotations tried for an exact
    result. Raises ViewError for impossible patterns and capacities, and for periods without a
    common multiple.
    """
    if not 0 < capacity <= 1e30:
        raise ViewError(f"link: capacity: expected bytes/s above 0, got {capacity}")
    if not patterns:
        raise ViewError("link: expected at least one job")
    for pattern in patterns:
        circles.check(pattern)
    order = sorted(range(len(patterns)), key=lambda index: patterns[index].job)
    ordered = [patterns[index] for index in order]
    circle = circles.unified_circle([pattern.period for pattern in ordered], tolerance)
    count = circles.angle_count(circle.turns, angles)
    curves = [
        circles.demand(pattern, turns, count)
        for pattern, turns in zip(ordered, circle.turns, strict=True)
    ]
    spans = circles.rotation_counts(circle.turns, count).tolist()
    steps, least, exact = _search(curves, spans, capacity, nodes)
    shifts = [0.0] * len(patterns)
    for place, step in enumerate(steps):
        shifts[order[place]] = (step / count * circle.perimeter) % ordered[place].period
    turns = [0] * len(patterns)
    for place, index in enumerate(order):
        turns[index] = circle.turns[place]
    shown = Circle(circle.perimeter, tuple(turns), circle.error)
    return Fit(1.0 - least, tuple(shifts), shown, exact)


def score(patterns: Sequence[Pattern], capacity: float, circle: Circle) -> float:
    """Return the score of unrotated jobs, on the circle that fit() found for them."""
    count = circles.angle_count(circle.turns)
    total: Floats = np.zeros(count)
    for pattern, turns in zip(patterns, circle.turns, strict=True):
        total = total + circles.demand(pattern, turns, count)
    return 1.0 - circles.excess(total, capacity)


def _search(
    curves: list[Floats], spans: list[int], capacity: float, nodes: int
) -> tuple[list[int], float, bool]:
    count = len(curves[0])
    unit = count * capacity
    # Whatever the rotation, what is asked for in all is above what fits by this much.
    floor = max(0.0, (float(sum(curve.sum() for curve in curves)) - unit) / unit)
    strides = [-(-span // FIRST_ROTATIONS) for span in spans]
    tables = [
        _table(curve, range(0, span, stride))
        for curve, span, stride in zip(curves, spans, strides, strict=True)
    ]
    rows, least = _descend(tables, capacity, floor)
    whole = max(strides) == 1
    if whole and least > floor + SCORE_TOLERANCE:
        most = min(nodes, EXACT_CELLS // max(table.size for table in tables))
        rows, least, whole = _Branch(tables, capacity, rows, least, most).run()
    steps = [row * stride for row, stride in zip(rows, strides, strict=True)]
    if max(strides) > 1 and least > floor + SCORE_TOLERANCE:
        steps, least = _refine(curves, strides, steps, capacity, least)
    return steps, least, least <= floor + SCORE_TOLERANCE or whole


def _table(curve: Floats, steps: range) -> Floats:
    """Return (N, count) a job's curve after each of N rotations, all less than a full circle.

    Rows overlap in memory: do not write to them.
    """
    count = len(curve)
    every = sliding_window_view(np.concatenate([curve, curve, curve]), count)
    return every[count - steps.start : count - steps.stop : -steps.step]


def _descend(tables: list[Floats], capacity: float, floor: float) -> tuple[list[int], float]:
    """Return a row of each table: coordinate descent from several orders of insertion."""
    count = len(tables)
    busiest = sorted(range(1, count), key=lambda job: (-float(tables[job][0].sum()), job))
    orders = [busiest, list(range(1, count)), busiest[::-1], list(range(count - 1, 0, -1))]
    best, least = [0] * count, np.inf
    for order in orders[:START_ORDERS]:
        rows, total = [0] * count, tables[0][0].copy()
        for job in order:
            rows[job], _ = _place(total, tables[job], capacity)
            total = total + tables[job][rows[job]]
        value = circles.excess(total, capacity)
        for _ in range(MAX_SWEEPS):
            before = value
            for job in order:
                rest = total - tables[job][rows[job]]
                row, found = _place(rest, tables[job], capacity)
                if found < value - SCORE_TOLERANCE:
                    rows[job], value = row, found
                    total = rest + tables[job][row]
            if value >= before - SCORE_TOLERANCE:
                break
        if value < least - SCORE_TOLERANCE:
            best, least = rows, value
        if least <= floor + SCORE_TOLERANCE:
            break
    return best, float(least)


def _refine(
    curves: list[Floats], strides: list[int], steps: list[int], capacity: float, least: float
) -> tuple[list[int], float]:
    """Search the angles in between, near the result so far."""
    steps = list(steps)
    turned = [np.roll(curve, step) for curve, step in zip(curves, steps, strict=True)]
    for job in range(1, len(curves)):
        near = range(1 - strides[job], strides[job])
        rest = np.asarray(sum(turned[:job] + turned[job + 1 :]))
        row, found = _place(rest, _table(turned[job], near), capacity)
        if found < least - SCORE_TOLERANCE:
            turned[job] = np.roll(turned[job], near[row])
            steps[job], least = (steps[job] + near[row]) % len(curves[job]), found
    return steps, least


def _place(rest: Floats, table: Floats, capacity: float) -> tuple[int, float]:
    """Return the first best rotation of a job beside the others, and the excess then."""
    over = _excesses(table, rest - capacity)
    step = int(np.flatnonzero(over <= over.min() * (1 + SCORE_TOLERANCE))[0])
    return step, float(over[step] / (table.shape[1] * capacity))


def _excesses(table: Floats, above: Floats) -> Floats:
    """Return (N,) the sum of each row plus `above` where positive; some rows at a time, to fit a
    cache."""
    rows = max(1, ANGLES_AT_ONCE // table.shape[1])
    found = np.empty(len(table))
    space = np.empty((min(rows, len(table)), table.shape[1]))
    for first in range(0, len(table), rows):
        part = table[first : first + rows]
        over = np.add(part, above, out=space[: len(part)])
        np.maximum(over, 0.0, out=over).sum(axis=1, out=found[first : first + rows])
    return found


class _Branch:
    """Branch and bound: depth first over the jobs, rotations in order of the excess so far."""

    def __init__(
        self,
        tables: list[Floats],
        capacity: float,
        rows: list[int],
        least: float,
        nodes: int,
    ) -> None:
        # Large demands first: they decide most.
        sums = [float(table[0].sum()) for table in tables]
        self.order = sorted(range(1, len(tables)), key=lambda job: (-sums[job], job))
        self.tables, self.first, self.capacity = tables, tables[0][0], capacity
        rest = [sums[job] for job in self.order]
        self.later = [sum(rest[depth + 1 :]) for depth in range(len(rest))]
        self.best, self.least = list(rows), least
        self.nodes = nodes
        self.rows = [0] * len(tables)

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
        # Traffic of later jobs beyond the remaining room is above capacity too.
        room = np.maximum(self.capacity - sums, 0.0).sum(axis=1)
        bound = over + np.maximum(self.later[depth] - room, 0.0) / size
        for step in np.argsort(bound, kind="stable").tolist():
            if bound[step] >= self.least - SCORE_TOLERANCE or self.nodes <= 0:
                return
            self.rows[job] = step
            if depth == len(self.order) - 1:
                self.best, self.least = list(self.rows), float(over[step])
                return
            self._down(depth + 1, sums[step])
