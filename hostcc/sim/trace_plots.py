"""Pictures of a trace: sizes of jobs, what runs over time, what is at risk.

Needs matplotlib (the extra `lab`), which is imported only here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from hostcc.errors import HostccError
from hostcc.sim.trace_description import Description

MINUTES_OF_DAY = 24 * 60


def draw(described: Description, folder: Path) -> list[Path]:
    """Write the pictures into a folder that exists; return their paths. Raises HostccError."""
    try:
        import matplotlib as mpl
    except ImportError as error:
        raise HostccError("plots need matplotlib: pip install 'hostcc[lab]'") from error
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False})
    written = []
    for name, panels in (
        ("sizes", (_sizes,)),
        ("over-time", (_jobs, _gpus)),
        ("at-risk", (_risk_of_jobs, _risk_of_gpus)),
    ):
        figure, axes = plt.subplots(
            len(panels), 1, figsize=(8, 2.6 * len(panels)), layout="constrained", squeeze=False
        )
        path = folder / f"{name}.png"
        try:
            for panel, axis in zip(panels, axes[:, 0], strict=True):
                panel(axis, described)
            figure.savefig(path, dpi=130)
        except OSError as error:
            raise HostccError(f"{path}: {error.strerror}") from error
        finally:
            plt.close(figure)
        written.append(path)
    return written


def _sizes(axis: Any, described: Description) -> None:
    sizes = {gpus: count for gpus, count in described.profile.gpus_per_job.items() if gpus}
    shares = np.cumsum([0, *sizes.values()]) / max(sum(sizes.values()), 1)
    axis.step([1, *sizes], shares, where="post", color="C0", label="this trace")
    published = [one for one in described.groups["sizes"] if one.published is not None]
    places = [int(one.name.split()[-2]) for one in published]
    axis.plot(places, [one.published for one in published], "o", ms=4, color="C3", label="Lingjun")
    axis.set_xscale("log", base=2)
    axis.set_xlabel("GPUs of a job")
    axis.set_ylabel("share of jobs")
    axis.set_ylim(0, 1.02)
    axis.legend(frameon=False)


def _jobs(axis: Any, described: Description) -> None:
    _curve(axis, described, "large_jobs", "concurrent")
    axis.set_ylabel("jobs of 8 GPUs or more")


def _gpus(axis: Any, described: Description) -> None:
    _curve(axis, described, "gpus", "active")
    axis.set_ylabel("GPUs")
    axis.set_xlabel("days since the first start")


def _risk_of_jobs(axis: Any, described: Description) -> None:
    _curve(axis, described, "large_jobs", "concurrent")
    _curve(axis, described, "jobs_at_risk", "at risk")
    axis.set_ylabel("jobs of 8 GPUs or more")
    axis.legend(frameon=False)


def _risk_of_gpus(axis: Any, described: Description) -> None:
    _curve(axis, described, "gpus", "active")
    _curve(axis, described, "gpus_at_risk", "at risk")
    axis.set_ylabel("GPUs")
    axis.set_xlabel("days since the first start")


def _curve(axis: Any, described: Description, name: str, label: str) -> None:
    found = described.timeline
    days = (found.minutes - found.minutes[0]) / MINUTES_OF_DAY
    axis.stairs(found.values[name], days, baseline=None, label=label)
