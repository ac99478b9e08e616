"""Draws the same circles as a picture of pixels.

Needs matplotlib (the extra `lab`), which is imported only here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hostcc.errors import HostccError, one_line
from hostcc.report import svg
from hostcc.report.circles import OUTER, ring_width, score_words, shortened, turned
from hostcc.schedule.link_circles import LinkCircle


def draw(several: Sequence[LinkCircle], path: Path) -> None:
    """Write the picture.  Raises HostccError."""
    try:
        import matplotlib as mpl
    except ImportError as error:
        raise HostccError("plots need matplotlib: pip install 'hostcc[lab]'") from error
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure = plt.figure(figsize=(8.2, 3.4 * len(several)), layout="constrained")
    grid = figure.add_gridspec(len(several), 2)
    for row, one in enumerate(several):
        for column, fits in enumerate((False, True)):
            axis = figure.add_subplot(grid[row, column], projection="polar")
            _circle(axis, one, fits=fits)
    try:
        figure.savefig(path, dpi=130)
    except (OSError, ValueError) as error:
        raise HostccError(f"{path}: {getattr(error, 'strerror', None) or error}") from error
    finally:
        plt.close(figure)


def _circle(axis: Any, of: LinkCircle, *, fits: bool) -> None:
    axis.set_theta_zero_location("N")
    axis.set_theta_direction(-1)
    axis.set_ylim(0, OUTER + 10)
    axis.set_yticks([])
    axis.grid(visible=False)
    axis.spines["polar"].set_visible(False)
    axis.set_xticks([math.tau * turn / 4 for turn in range(4)])
    axis.set_xticklabels([f"{of.perimeter_s * 1e3 * turn / 4:.4g} ms" for turn in range(4)])
    axis.tick_params(labelsize=6, colors=svg.FAINT)
    wide = ring_width(len(of.jobs))

    def band(start: float, end: float, low: float, high: float, **more: Any) -> None:
        axis.bar(
            math.tau * start, high - low, math.tau * (end - start), low, align="edge", lw=0, **more
        )

    for place, one in enumerate(of.jobs):
        high = OUTER - place * wide - 1
        band(0, 1, high - wide + 2, high, color=svg.TRACK)
        for start, end in turned(one.up, one.shift if fits else 0.0):
            name = shortened(one_line(one.job)).replace("$", r"\$")
            band(
                start, end, high - wide + 2, high, color=svg.colour(place),
                alpha=max(0.35, one.share), label=name,
            )  # fmt: skip
    for start, end in of.left if fits else of.collisions:
        band(start, end, OUTER + 2, OUTER + 8, color=svg.ALARM)
    link = shortened(one_line(of.link), 48).replace("$", r"\$")
    title = score_words(of) if fits else f"{link}: all begin at once, {of.together:.2f}"
    axis.set_title(title, fontsize=8)
    if not fits:
        handles, names = axis.get_legend_handles_labels()
        first = dict(zip(names, handles, strict=True))
        axis.legend(
            first.values(), first.keys(), fontsize=6, frameon=False, loc="upper right",
            bbox_to_anchor=(0.02, 1.0),
        )  # fmt: skip
