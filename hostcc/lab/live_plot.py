"""Draws what a live run has seen: bandwidth of each job, and when jobs stop to send at once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hostcc.lab.errors import LabError
from hostcc.lab.live import LiveRun

MAX_POINTS = 3000
"""Of a curve; more are averaged."""
BITS_PER_MBIT = 1e6 / 8


def draw(runs: Sequence[LiveRun], path: Path) -> Path:
    """Write the picture: a panel and a strip below it for each run.  Raises LabError."""
    try:
        import matplotlib as mpl
    except ImportError as error:
        raise LabError("plots need matplotlib: pip install 'hostcc[lab]'") from error
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    if not runs:
        raise LabError("nothing was watched, so there is nothing to draw")
    figure, axes = plt.subplots(
        2 * len(runs), 1, figsize=(11, 3.0 * len(runs)), squeeze=False, layout="constrained",
        gridspec_kw={"height_ratios": [3, 1] * len(runs)},
    )  # fmt: skip
    for row, run in enumerate(runs):
        _rates(axes[2 * row][0], run)
        _overlap(axes[2 * row + 1][0], run)
        axes[2 * row + 1][0].sharex(axes[2 * row][0])
    axes[-1][0].set_xlabel("time (s)")
    try:
        figure.savefig(path, dpi=130)
    except (OSError, ValueError) as error:
        raise LabError(f"{path}: {getattr(error, 'strerror', None) or error}") from error
    finally:
        plt.close(figure)
    return path


def _rates(axis: Any, run: LiveRun) -> None:
    times, rates = run.rates()
    step = max(1, -(-len(times) // MAX_POINTS))
    kept = len(times) // step * step
    times = times[:kept].reshape(-1, step).mean(axis=1)
    rates = rates[:kept].reshape(-1, step, rates.shape[1]).mean(axis=1) / BITS_PER_MBIT
    for index, job in enumerate(run.jobs):
        axis.fill_between(
            times, rates[:, index], alpha=0.5, lw=0, step="mid", color=f"C{index}",
            label=job.replace("$", r"\$"),
        )  # fmt: skip
    axis.set_ylabel("Mbit/s")
    axis.set_title(run.title.replace("$", r"\$"), fontsize=9, loc="left")
    axis.legend(loc="upper right", ncols=4, fontsize=7, frameon=False)
    axis.margins(x=0)


def _overlap(axis: Any, run: LiveRun) -> None:
    found = run.overlap()
    axis.step(found.times, np.asarray(found.part) * 100, where="mid", color="C3", lw=1.2)
    axis.set(ylabel="at once\n(%)", ylim=(0, 105))
    axis.margins(x=0)
