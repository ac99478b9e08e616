"""Keeps what jobs did lately, in steps of a fixed length and arrays of a bounded size.  Pure.

A figure of a step is a sum over a weight: bytes over seconds, seconds over iterations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Pairs = Sequence[tuple[float, float]]
"""(Sum, weight) of each figure."""


class JobRings:
    """The last `points` steps of up to `jobs_max` jobs.

    Jobs that have ended stay until their steps are over, or their places are needed.
    """

    def __init__(self, step_s: float, points: int, figures: int, jobs_max: int) -> None:
        self.step_s, self.points = step_s, points
        self._figures, self._jobs_max = figures, jobs_max
        self._cells = np.zeros((0, figures, 2, points), np.float32)
        """Sum and weight of each job, figure and step; the place of a step is its number modulo
        the points."""
        self._rows: dict[str, int] = {}
        self._last: dict[str, int] = {}
        """Job -> number of the step in which it was seen last."""
        self._now = 0

    @property
    def names(self) -> list[str]:
        """Return the jobs that are remembered, by name."""
        return sorted(self._rows)

    @property
    def nbytes(self) -> int:
        """Return the memory that the arrays take."""
        return self._cells.nbytes

    def add(self, now_s: float, jobs: Mapping[str, Pairs]) -> None:
        """Add figures of the step that `now_s` is in; time does not go back."""
        self._turn(int(now_s // self.step_s))
        rows, values = [], []
        for name, pairs in jobs.items():
            row = self._row(name)
            if row is not None:
                self._last[name] = self._now
                rows.append(row)
                values.append(pairs)
        if rows:
            self._cells[rows, :, :, self._now % self.points] += np.array(values, np.float32)

    def recent(self, names: Sequence[str], points: int) -> tuple[Floats, float]:
        """Return (jobs, figures, points) means of the latest steps, NaN where nothing is known, and
        when the last of them began; the step that goes on is not among them."""
        last = self._now - 1
        steps = np.arange(last - points + 1, last + 1)
        rows = [self._rows[name] for name in names]
        cells = self._cells[rows][..., steps % self.points].astype(np.float64)
        weight = cells[:, :, 1]
        means = np.full(weight.shape, np.nan)
        np.divide(cells[:, :, 0], weight, out=means, where=(weight > 0) & (steps >= 0))
        return means, last * self.step_s

    def _turn(self, step: int) -> None:
        """Begin a step; those in between are empty."""
        if step <= self._now:
            return
        fresh = np.arange(max(self._now + 1, step - self.points + 1), step + 1) % self.points
        self._cells[..., fresh] = 0
        self._now = step
        for name in [name for name, last in self._last.items() if last <= step - self.points]:
            del self._last[name], self._rows[name]

    def _row(self, name: str) -> int | None:
        """Return the place of a job; None: all are taken by jobs that are there."""
        if (row := self._rows.get(name)) is not None:
            return row
        if len(self._rows) >= self._jobs_max:
            oldest = min(self._last, key=lambda one: (self._last[one], one))
            if self._last[oldest] >= self._now - 1:
                return None
            del self._last[oldest]
            row = self._rows.pop(oldest)
        else:
            taken = set(self._rows.values())
            row = next(at for at in range(len(taken) + 1) if at not in taken)
        if row >= len(self._cells):
            more = min(self._jobs_max, max(8, 2 * len(self._cells)))
            grown = np.zeros((more, *self._cells.shape[1:]), np.float32)
            grown[: len(self._cells)] = self._cells
            self._cells = grown
        self._cells[row] = 0
        self._rows[name], self._last[name] = row, self._now
        return row
