"""Draws the paths that flows take: links as boxes, column by column, and a line for each job.

Names of links say what they lead to, not which switch they belong to, so links are what is drawn.
A path goes from its source on the left to its destination on the right.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from hostcc.model import ClusterView, FlowPlan
from hostcc.report import svg
from hostcc.report.circles import shortened

WIDTH = 1000.0
BOX_HEIGHT, ROW = 17.0, 23.0
MAX_ROWS = 40
"""Boxes in a column; what crosses others is not drawn."""
MAX_WAYS = 300
"""Lines, the busiest first."""
SWEEPS = 4
Box = tuple[int, str]
"""Column and name."""


@dataclass(frozen=True)
class Way:
    """A path in use by a job."""

    job: str
    boxes: tuple[str, ...]
    """Source, links in the order of the hops, destination."""
    bytes: float
    """Per iteration."""


@dataclass(frozen=True)
class Topology:
    """Paths in use, laid out in columns."""

    columns: tuple[tuple[str, ...], ...]
    """Boxes from top to bottom."""
    lines: tuple[tuple[str, tuple[Box, ...]], ...]
    """(Job, boxes from left to right)."""
    left_out: int
    """Paths in use that found no room."""


def ways(view: ClusterView, planned: Sequence[FlowPlan]) -> list[Way]:
    """Return the paths in use, by the plan or as the flows are now, flows of a job added up."""
    path_of = {one.flow: one.path for one in planned}
    links = {
        (table.src, table.dst, path.id): path.links for table in view.tables for path in table.paths
    }
    found: Counter[tuple[str, tuple[str, ...]]] = Counter()
    for flow in view.flows:
        path = path_of.get(flow.id) or flow.path
        way = links.get((flow.src, flow.dst, path))
        if way is not None:
            found[flow.job, (flow.src, *way, flow.dst)] += max(1, round(flow.bytes))
    return [Way(job, boxes, size) for (job, boxes), size in found.most_common()]


def layout(of: Sequence[Way]) -> Topology:
    """Place links in columns by their hop, in an order with few crossings."""
    longest = max((len(way.boxes) for way in of), default=0)
    rows: list[dict[str, int]] = [{} for _ in range(longest)]
    lines: list[tuple[str, tuple[Box, ...]]] = []
    for way in of:
        placed = tuple(zip(_columns(len(way.boxes), longest), way.boxes, strict=True))
        full = any(
            name not in rows[column] and len(rows[column]) >= MAX_ROWS for column, name in placed
        )
        if full or len(lines) >= MAX_WAYS:
            continue
        for column, name in placed:
            rows[column].setdefault(name, len(rows[column]))
        lines.append((way.job, placed))
    ordered = [sorted(column) for column in rows]
    for sweep in range(SWEEPS):
        ordered = _swept(ordered, lines, forward=sweep % 2 == 0)
    return Topology(tuple(map(tuple, ordered)), tuple(lines), len(of) - len(lines))


def picture(of: Topology, colours: Mapping[str, str], loads: Mapping[str, float]) -> str:
    """Return the drawing; `loads`: of links that several jobs share."""
    count = len(of.columns)
    if not count:
        return ""
    height = ROW * max(map(len, of.columns)) + 12
    step = WIDTH / count
    wide = min(150.0, step * 0.72)
    spot = {
        (column, name): (column * step + (step - wide) / 2, _top(row, len(names), height))
        for column, names in enumerate(of.columns)
        for row, name in enumerate(names)
    }
    passing: Counter[Box] = Counter(box for _, boxes in of.lines for box in boxes)
    next_at: defaultdict[Box, int] = defaultdict(int)
    parts = []
    for job, boxes in of.lines:
        points = []
        for box in boxes:
            x, y = spot[box]
            next_at[box] += 1
            inside = y + BOX_HEIGHT * next_at[box] / (passing[box] + 1)
            points.append((x, inside))
        parts.append(_line(points, wide, colours.get(job, svg.FAINT), job))
    for (column, name), (x, y) in spot.items():
        is_end = column in (0, count - 1)
        load = loads.get(name) if not is_end else None
        parts.append(_box(name, x, y, wide, load, is_end=is_end))
    return svg.drawing(WIDTH, height, *parts, title="paths in use")


def _columns(boxes: int, longest: int) -> list[int]:
    """Return a column for each box: the ends outside, what is between spread evenly."""
    if boxes == 1:
        return [0]
    return [round(at * (longest - 1) / (boxes - 1)) for at in range(boxes)]


def _swept(
    columns: list[list[str]], lines: Sequence[tuple[str, tuple[Box, ...]]], *, forward: bool
) -> list[list[str]]:
    """Order each column by where the lines come from in the one before."""
    place = {(at, name): row for at, names in enumerate(columns) for row, name in enumerate(names)}
    near: defaultdict[Box, list[float]] = defaultdict(list)
    order = range(len(columns)) if forward else range(len(columns) - 1, -1, -1)
    found = list(columns)
    before: dict[Box, list[Box]] = defaultdict(list)
    for _, boxes in lines:
        along = boxes if forward else boxes[::-1]
        for one, other in pairwise(along):
            before[other].append(one)
    for column in order:
        for name in found[column]:
            near[column, name] = [
                place[one] / max(1, len(found[one[0]])) for one in before[column, name]
            ]
        size = max(1, len(found[column]))
        found[column] = sorted(
            found[column],
            key=lambda name: (
                sum(near[column, name]) / len(near[column, name])
                if near[column, name]
                else place[column, name] / size,
                name,
            ),
        )
        for row, name in enumerate(found[column]):
            place[column, name] = row
    return found


def _top(row: int, rows: int, height: float) -> float:
    """Return the y of a box; columns are centred."""
    return (height - rows * ROW) / 2 + row * ROW + (ROW - BOX_HEIGHT) / 2


def _line(points: Sequence[tuple[float, float]], wide: float, colour: str, job: str) -> str:
    path = f"M{points[0][0] + wide:.1f} {points[0][1]:.1f}"
    for (x, y), (last_x, last_y) in zip(points[1:], points, strict=False):
        half = (x - last_x - wide) / 2
        path += (
            f"C{last_x + wide + half:.1f} {last_y:.1f} {x - half:.1f} {y:.1f} {x:.1f} {y:.1f}"
            f"H{x + wide:.1f}"
        )
    title = svg.tag("title", svg.words(job))
    return svg.tag("path", title, d=path, fill="none", stroke=colour, stroke_width=1.8)


def _box(name: str, x: float, y: float, wide: float, load: float | None, *, is_end: bool) -> str:
    hot = load is not None and load > 1
    shown = name if load is None else f"{shortened(name, 17)}  {load:.2f}"
    return svg.tag(
        "g",
        svg.tag("title", svg.words(name if load is None else f"{name}: load {load:.2f}")),
        svg.tag(
            "rect", x=x, y=y, width=wide, height=BOX_HEIGHT, rx=4,
            fill="#f4f6f9" if not is_end else svg.INK,
            fill_opacity=0.82 if not is_end else 1, stroke=svg.ALARM if hot else "#b6c0cb",
        ),
        svg.label(
            x + wide / 2, y + 12, shortened(shown, 24), 10, text_anchor="middle",
            fill="#fff" if is_end else svg.ALARM if hot else svg.INK,
        ),
    )  # fmt: skip
