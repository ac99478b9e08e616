"""Draws figures over time: sparklines, stacked areas, lines.  Pure."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hostcc.report import svg
from hostcc.report.circles import shortened

Values = Sequence[float | None]
SPARK = (140.0, 26.0)
SPARK_POINTS = 90
CHART = (1000.0, 210.0)
LEFT, BOTTOM, TOP = 64.0, 24.0, 18.0
"""Margins of a chart."""
KEYS_PER_ROW = 5


@dataclass(frozen=True)
class Series:
    """A named line."""

    name: str
    colour: str
    values: Values


@dataclass(frozen=True)
class Axis:
    """When the steps of a chart were, and how its figures are written."""

    end: float
    """Seconds since the epoch."""
    step_s: float
    scale: float
    """What a figure is divided by to be written."""
    unit: str
    events: Sequence[tuple[float, str]] = ()
    """(Seconds since the epoch, words)."""


def condensed(values: Values, points: int) -> list[float | None]:
    """Return at most `points` means of neighbouring values, of those that are known."""
    size = -(-len(values) // points) if points else 1
    parts = [values[at : at + size] for at in range(0, len(values), max(1, size))]
    known = [[value for value in part if value is not None] for part in parts]
    return [sum(part) / len(part) if part else None for part in known]


def trimmed(several: Sequence[Values]) -> int:
    """Return how many steps at the beginning nothing is known of in all of them."""
    firsts = [
        next((at for at, value in enumerate(values) if value is not None), len(values))
        for values in several
    ]
    return min(firsts, default=0)


def axis_top(most: float, scale: float) -> float:
    """Return the end of an axis of four round steps that `most` is on."""
    step = most / scale / 4 or 1.0
    size = 10.0 ** math.floor(math.log10(step))
    return 4 * scale * size * next(one for one in (1, 2, 2.5, 5, 10, 20) if one * size >= step)


def sparkline(values: Values, colour: str, title: str = "") -> str:
    """Return a small line without axes; empty if nothing is known."""
    shown = condensed(values, SPARK_POINTS)
    known = [value for value in shown if value is not None]
    if not known:
        return ""
    width, height = SPARK
    top = max(known) or 1.0
    step = width / max(1, len(shown) - 1)

    def place(at: int, value: float) -> str:
        return f"{at * step:.1f} {height - 2 - value / top * (height - 4):.1f}"

    return svg.drawing(width, height, *_polylines(shown, place, colour, 1.3), title=title)


def lines(several: Sequence[Series], axis: Axis) -> str:
    """Return a chart with a line for each series."""
    known = [value for one in several for value in one.values if value is not None]
    if not known:
        return ""
    top = axis_top(max(known), axis.scale)
    count = max(len(one.values) for one in several)
    parts = _frame(top, count, axis)
    for one in several:
        parts += _polylines(one.values, _Place(top, count), one.colour, 1.5)
    return _with_key(parts, several)


def stacked(several: Sequence[Series], axis: Axis) -> str:
    """Return a chart of areas on top of each other; what is unknown counts as nothing."""
    count = max((len(one.values) for one in several), default=0)
    sums = [0.0] * count
    layers = []
    for one in several:
        below = list(sums)
        for at, value in enumerate(one.values):
            sums[at] += value or 0.0
        layers.append((one, below, list(sums)))
    if not max(sums, default=0.0):
        return ""
    top = axis_top(max(sums), axis.scale)
    parts, place = _frame(top, count, axis), _Place(top, count)
    for one, below, above in layers:
        there = " ".join(f"L{place(at, value)}" for at, value in enumerate(above))
        back = " ".join(f"L{place(at, below[at])}" for at in reversed(range(count)))
        path = f"M{there[1:]} {back}Z"
        parts.append(svg.tag("path", svg.tag("title", svg.words(one.name)), d=path,
                             fill=one.colour, opacity=0.85))  # fmt: skip
    return _with_key(parts, several)


class _Place:
    """Where a value is in a chart."""

    def __init__(self, top: float, count: int) -> None:
        self._top, self._count = top, max(1, count - 1)

    def __call__(self, at: int, value: float) -> str:
        width, height = CHART
        x = LEFT + at / self._count * (width - LEFT)
        y = height - BOTTOM - value / self._top * (height - BOTTOM - TOP)
        return f"{x:.1f} {y:.1f}"


def _polylines(
    values: Values, place: Callable[[int, float], str], colour: str, width: float
) -> list[str]:
    """Return a line for each run of known values; a single one is a short line."""
    runs: list[list[str]] = [[]]
    for at, value in enumerate(values):
        if value is None:
            runs.append([])
        else:
            runs[-1].append(place(at, value))
    paths = [f"M{'L'.join(run)}" + ("h1.5" if len(run) == 1 else "") for run in runs if run]
    if not paths:
        return []
    return [
        svg.tag("path", d="".join(paths), fill="none", stroke=colour, stroke_width=width,
                stroke_linejoin="round", stroke_linecap="round")
    ]  # fmt: skip


def _frame(top: float, count: int, axis: Axis) -> list[str]:
    width, height = CHART
    low = height - BOTTOM
    parts = []
    for part in range(5):
        y = low - part / 4 * (low - TOP)
        value = top * part / 4 / axis.scale
        parts += [
            svg.tag("path", d=f"M{LEFT} {y:.1f}H{width}", stroke=svg.TRACK, stroke_width=1),
            svg.label(LEFT - 6, y + 4, f"{value:.3g}", 10, text_anchor="end", fill=svg.FAINT),
        ]
    parts.append(svg.label(0, 10, axis.unit, 10, fill=svg.FAINT))
    begin = axis.end - count * axis.step_s
    for part in range(5):
        at = begin + (axis.end - begin) * part / 4
        x = LEFT + part / 4 * (width - LEFT)
        anchor = "start" if part == 0 else "end" if part == 4 else "middle"
        parts.append(svg.label(x, height - 6, _clock(at), 10, text_anchor=anchor, fill=svg.FAINT))
    for when, words in axis.events:
        if begin < when < axis.end:
            x = LEFT + (when - begin) / (axis.end - begin) * (width - LEFT)
            parts += [
                svg.tag("path", d=f"M{x:.1f} {TOP}V{low}", stroke=svg.INK, stroke_width=1,
                        stroke_dasharray="3 3"),
                svg.label(x + 3, TOP + 8, words, 10),
            ]  # fmt: skip
    return parts


def _with_key(parts: list[str], several: Sequence[Series]) -> str:
    width, height = CHART
    step = (width - LEFT) / KEYS_PER_ROW
    rows = -(-len(several) // KEYS_PER_ROW)
    for at, one in enumerate(several):
        x, y = LEFT + at % KEYS_PER_ROW * step, height + 12 + at // KEYS_PER_ROW * 16
        parts += [
            svg.tag("rect", x=x, y=y - 8, width=9, height=9, rx=2, fill=one.colour),
            svg.label(x + 14, y, shortened(one.name, 28), 10),
        ]
    return svg.drawing(width, height + 8 + 16 * rows, *parts)


def _clock(seconds: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(seconds))
