"""Published curves from the CSV files of `benchmarks/evidence/published`."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
FOLDER = Path(__file__).parent / "published"


def table(name: str) -> list[dict[str, str]]:
    """Return the rows of a published CSV file."""
    with (FOLDER / name).open(newline="") as file:
        return list(csv.DictReader(file))


def curve(name: str, **where: str) -> tuple[Floats, Floats]:
    """Return (N,) each of the last two columns, of rows with these values in the others."""
    rows = [row for row in table(name) if all(row[key] == value for key, value in where.items())]
    values = np.array([[float(value) for value in list(row.values())[-2:]] for row in rows])
    return values[:, 0], values[:, 1]


def quantile(values: Floats, shares: Floats, share: float) -> float:
    """Return the first value of a CDF at which it has reached `share`."""
    return float(values[np.flatnonzero(shares >= share)[0]])


def mean_over_time(times: Floats, values: Floats) -> float:
    """Return the mean over time of a curve of steps, each until the next."""
    return float((values[:-1] * np.diff(times)).sum() / (times[-1] - times[0]))


def mean_between(times: Floats, values: Floats, first: float, last: float) -> float:
    """Return the mean of a curve of straight lines between two times."""
    inside = (times > first) & (times < last)
    x = np.concatenate([[first], times[inside], [last]])
    y = np.interp(x, times, values)
    return float(((y[1:] + y[:-1]) / 2 * np.diff(x)).sum() / (last - first))
