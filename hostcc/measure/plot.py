"""A job's series, its period, the folded iteration and the circle, as a picture.

Needs matplotlib (the extra `lab`), which is imported only here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from hostcc.errors import HostccError
from hostcc.measure.measured_profile import MeasuredProfile
from hostcc.measure.series import NS, ByteSeries

SHOWN = 12
"""Iterations that the series' panel shows."""
MOST_POINTS = 4000
"""Of a curve."""


def draw(of: ByteSeries, profile: MeasuredProfile, path: Path) -> Path:
    """Write the picture; its kind is that of the file's name.  Raises HostccError."""
    try:
        import matplotlib as mpl
    except ImportError as error:
        raise HostccError("plots need matplotlib: pip install 'hostcc[lab]'") from error
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure = plt.figure(figsize=(10, 6.4), layout="constrained")
    grid = figure.add_gridspec(2, 3)
    _series(figure.add_subplot(grid[0, :]), of, profile)
    _folded(figure.add_subplot(grid[1, :2]), profile)
    _circle(figure.add_subplot(grid[1, 2], projection="polar"), profile)
    figure.suptitle(_title(profile), fontsize=10)
    try:
        figure.savefig(path, dpi=130)
    except (OSError, ValueError) as error:
        raise HostccError(f"{path}: {getattr(error, 'strerror', None) or error}") from error
    finally:
        plt.close(figure)
    return path


def _title(profile: MeasuredProfile) -> str:
    if profile.period_s is None or profile.bytes_per_iteration is None:
        return f"{profile.job}: not periodic: {profile.reason}"
    return (
        f"{profile.job}: {profile.period_s * 1e3:.4g} ms, "
        f"{profile.bytes_per_iteration / 1e6:.4g} MB an iteration, confidence "
        f"{profile.confidence:.2f} ({profile.reason})"
    )


def _series(axis: Any, of: ByteSeries, profile: MeasuredProfile) -> None:
    shown_s = SHOWN * profile.period_s if profile.period_s else len(of) * of.bin_s
    first = max(0, len(of) - int(np.ceil(shown_s / of.bin_s)))
    step = max(1, (len(of) - first) // MOST_POINTS)
    values = of.total[first:]
    kept = len(values) // step * step
    rates = values[:kept].reshape(-1, step).mean(axis=1) / of.bin_s * 8 / 1e9
    times = (first + np.arange(len(rates)) * step) * of.bin_s
    axis.fill_between(times, rates, step="post", alpha=0.5, lw=0, color="C0")
    axis.step(times, rates, where="post", lw=0.6, color="C0")
    if profile.fold is not None:
        for begin in (profile.fold.begins_ns - of.start_ns) / NS:
            if times.size and times[0] <= begin <= times[-1]:
                axis.axvline(begin, color="C3", lw=0.7)
    axis.set_xlabel("time (s); lines: iterations begin")
    axis.set_ylabel("Gbit/s")


def _folded(axis: Any, profile: MeasuredProfile) -> None:
    laid = profile.fold
    if laid is None:
        axis.set_axis_off()
        return
    times = (np.arange(len(laid.mean)) + 0.5) / len(laid.mean) * laid.period_s * 1e3
    axis.fill_between(
        times, laid.low * 8e-9, laid.high * 8e-9, alpha=0.3, lw=0, label="10 to 90 % of iterations"
    )
    axis.plot(times, laid.mean * 8e-9, lw=1.0, label="mean")
    axis.axvline(laid.communication_start_s * 1e3, color="C3", lw=0.8, label="communication")
    axis.set_xlabel("time in the iteration (ms)")
    axis.set_ylabel("Gbit/s")
    axis.legend(fontsize=7, frameon=False)


def _circle(axis: Any, profile: MeasuredProfile) -> None:
    laid = profile.fold
    if laid is None:
        axis.set_axis_off()
        return
    angles = np.linspace(0, 2 * np.pi, len(laid.mean) + 1)
    axis.fill_between(angles, 0, np.append(laid.mean, laid.mean[0]) * 8e-9, alpha=0.5, lw=0)
    axis.set_theta_zero_location("N")
    axis.set_theta_direction(-1)
    axis.tick_params(labelsize=6)
    axis.set_title("circle (Gbit/s)", fontsize=8)
