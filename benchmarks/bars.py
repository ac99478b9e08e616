"""A bar plot of a record: panels by some of its columns, a bar per row with its range."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.record import Cell, Record, Spread

PANELS_PER_ROW = 3


def draw(
    record: Record, path: Path, *, panel: Sequence[str], bar: str, figure: str, label: str
) -> Path:
    """Draw the column `figure` of every row that has it; `panel` and `bar` name columns.

    Bars stand on 1, the job alone, so that what is drawn is the time lost.
    """
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    panels: dict[str, list[dict[str, Cell]]] = {}
    for row in record.rows:
        if isinstance(row.get(figure), Spread):
            panels.setdefault(", ".join(str(row[key]) for key in panel), []).append(row)
    columns = min(PANELS_PER_ROW, max(1, len(panels)))
    lines = max(1, -(-len(panels) // columns))
    made, axes = plt.subplots(
        lines,
        columns,
        figsize=(3.4 * columns, 0.6 + 2.2 * lines),
        sharex=True,
        squeeze=False,
        layout="constrained",
    )
    flat = [axis for line in axes for axis in line]
    for axis, (title, rows) in zip(flat, panels.items(), strict=False):
        for index, row in enumerate(rows):
            value = row[figure]
            if not isinstance(value, Spread) or None in (value.median, value.least, value.greatest):
                continue
            middle, least, greatest = value.median or 0, value.least or 0, value.greatest or 0
            axis.barh(index, middle - 1, left=1, color=f"C{index}", height=0.7)
            axis.plot([least, greatest], [index, index], color="black", lw=1)
        axis.set_yticks(range(len(rows)), [str(row[bar]) for row in rows], fontsize=8)
        axis.invert_yaxis()
        axis.set_title(title, fontsize=9)
        axis.axvline(1.0, color="grey", lw=0.6)
        axis.spines[["top", "right"]].set_visible(False)
    for axis in flat[len(panels) :]:
        axis.set_visible(False)
    made.supxlabel(label, fontsize=9)
    made.savefig(path, dpi=130)
    plt.close(made)
    return path
