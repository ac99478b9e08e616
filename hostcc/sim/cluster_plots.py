"""Pictures of replays: utilisation over time, and how much longer jobs took than alone.

Needs matplotlib (the extra `lab`), which is imported only here.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hostcc.errors import HostccError
from hostcc.sim.cluster_run import ClusterResult

DAY_S = 24 * 3600


def draw(results: Sequence[ClusterResult], folder: Path) -> list[Path]:
    """Write the pictures into a folder that exists; return their paths. Raises HostccError."""
    try:
        import matplotlib as mpl
    except ImportError as error:
        raise HostccError("plots need matplotlib: pip install 'hostcc[lab]'") from error
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    written = []
    for name, panel in (("utilisation", _utilisation), ("jct", _jct)):
        figure, axis = plt.subplots(figsize=(8, 4), layout="constrained")
        path = folder / f"{name}.png"
        try:
            for one in results:
                panel(axis, one)
            if axis.lines:
                axis.legend(frameon=False, fontsize=8)
            figure.savefig(path, dpi=130)
        except OSError as error:
            raise HostccError(f"{path}: {error.strerror}") from error
        finally:
            plt.close(figure)
        written.append(path)
    return written


def _utilisation(axis: Any, one: ClusterResult) -> None:
    course = one.figures["course"]
    days = np.array(course["until_s"]) / DAY_S
    values = [np.nan if value is None else value for value in course["utilisation"]]
    axis.step(days, values, where="pre", lw=1, label=one.scheduler)
    axis.set_xlabel("days")
    axis.set_ylabel("utilisation of the GPUs that jobs hold")
    axis.set_ylim(0, 1.02)


def _jct(axis: Any, one: ClusterResult) -> None:
    ratios = sorted(
        (row["finished_s"] - row["start_s"]) / (row["alone_s"] * row["iterations"])
        for row in one.jobs
        if row["finished_s"] is not None
    )
    if not ratios:
        return
    axis.step(ratios, np.linspace(1 / len(ratios), 1, len(ratios)), lw=1, label=one.scheduler)
    axis.set_xscale("log")
    axis.set_xlabel("time of a job over that alone")
    axis.set_ylabel("share of jobs that finished")
