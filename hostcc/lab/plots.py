"""Plots of a comparison: bandwidth of each job over time, and the CDF of iteration times.

They follow Figures 3.1 and 3.2 of Rajasekaran's thesis (MIT, 2025): one panel per variant
with the jobs' bandwidths as filled curves, and one curve per variant of iteration times.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hostcc.lab import flowplots
from hostcc.lab.results import Results, VariantResult
from hostcc.lab.scenario_hosts import hosts_of
from hostcc.lab.statistics import Floats, bandwidth_mbit

WINDOW_PERIODS = 8
"""Periods of the longest job shown at each end of a run."""


def draw(results: Results, out: Path) -> list[Path]:
    """Write both plots; returns their paths."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False})
    paths = []
    if any(run.series for variant in results.variants for run in variant.runs):
        paths.append(_bandwidth(plt, results, out))
    if results.scenario.job:
        paths.append(_distribution(plt, results, out))
        paths.append(_history(plt, results, out))
    ways = flowplots.draw(plt, results, out)
    if ways is not None:
        paths.append(ways)
    return paths


def job_rates(results: Results, variant: VariantResult, out: Path) -> tuple[Floats, Any] | None:
    """Times (s since the start) and rates (Mbit/s; intervals x jobs and backgrounds)."""
    run = variant.runs[0]
    if not run.series:
        return None
    with np.load(out / run.series) as data:
        times, rates = bandwidth_mbit(data["times"], data["bytes"])
        ports = [str(port) for port in data["ports"]]
    hosts = hosts_of(results.scenario)
    columns = [
        sum(
            rates[:, ports.index(host.name)]
            for host in hosts
            if host.owner == owner and not host.left
        )
        for owner in owners(results)
    ]
    return times - run.started_at_s, np.stack(columns, axis=1)


def owners(results: Results) -> list[str]:
    """Jobs, then backgrounds, by the names that their hosts carry."""
    return [job.name for job in results.scenario.job] + [
        f"{entry.name}.{number}" for number, entry in enumerate(results.scenario.background)
    ]


def _bandwidth(plt: Any, results: Results, out: Path) -> Path:
    variants = [variant for variant in results.variants if variant.runs[0].series]
    figure, axes = plt.subplots(
        len(variants),
        2,
        figsize=(10, 1.2 + 1.7 * len(variants)),
        sharey=True,
        squeeze=False,
        layout="constrained",
    )
    longest = max((job.summary.alone_s for job in variants[0].runs[0].jobs), default=1.0)
    window = WINDOW_PERIODS * longest
    for row, variant in zip(axes, variants, strict=True):
        series = job_rates(results, variant, out)
        if series is None:
            continue
        times, rates = series
        end = float(times[-1])
        for axis, begin in zip(row, (0.0, max(0.0, end - window)), strict=True):
            shown = (times >= begin) & (times <= begin + window)
            for index, owner in enumerate(owners(results)):
                axis.fill_between(
                    times[shown],
                    rates[shown, index],
                    alpha=0.45,
                    color=f"C{index}",
                    lw=0,
                    step="mid",
                )
                axis.plot(
                    times[shown],
                    rates[shown, index],
                    color=f"C{index}",
                    lw=0.7,
                    label=owner,
                    drawstyle="steps-mid",
                )
            axis.set_xlim(begin, begin + window)
        row[0].set_ylabel(f"{variant.name}\nMbit/s")
    axes[0][0].set_title("start", fontsize=9)
    axes[0][1].set_title("end", fontsize=9)
    axes[0][1].legend(loc="upper right", ncols=3, fontsize=7, frameon=False)
    for axis in axes[-1]:
        axis.set_xlabel("time (s)")
    figure.suptitle(f"{results.scenario_name}: bandwidth of each job", fontsize=10)
    return _save(plt, figure, out / "bandwidth.png")


def _distribution(plt: Any, results: Results, out: Path) -> Path:
    figure, axis = plt.subplots(figsize=(6, 3.6), layout="constrained")
    for index, variant in enumerate(results.variants):
        ratios = np.sort(
            np.concatenate([_ratios(variant, job.name) for job in results.scenario.job])
        )
        axis.plot(
            ratios,
            np.arange(1, len(ratios) + 1) / len(ratios),
            color=f"C{index}",
            label=variant.name,
            drawstyle="steps-post",
        )
    axis.axvline(1.0, color="grey", lw=0.6, ls=":")
    axis.set(xlabel="iteration time / alone", ylabel="CDF", ylim=(0, 1))
    axis.legend(fontsize=8, frameon=False)
    axis.set_title(f"{results.scenario_name}: iteration times", fontsize=10)
    return _save(plt, figure, out / "cdf.png")


def _history(plt: Any, results: Results, out: Path) -> Path:
    """Every iteration over time, and what was done in mid-run."""
    figure, axes = plt.subplots(
        len(results.variants),
        1,
        figsize=(7, 1 + 1.5 * len(results.variants)),
        sharex=True,
        sharey=True,
        squeeze=False,
        layout="constrained",
    )
    for (axis,), variant in zip(axes, results.variants, strict=True):
        run = variant.runs[0]
        for index, job in enumerate(run.jobs):
            axis.plot(
                job.starts_s,
                np.asarray(job.seconds) / job.summary.alone_s,
                color=f"C{index}",
                marker=".",
                ms=4,
                lw=0.7,
                label=job.name,
            )
        for event in run.events:
            axis.axvline(event.at_s, color="grey", lw=0.8, ls="--")
            axis.annotate(
                _short(event.what),
                (event.at_s, 0.97),
                xycoords=("data", "axes fraction"),
                fontsize=6,
                va="top",
                ha="right",
                rotation=90,
            )
        axis.axhline(1.0, color="grey", lw=0.6, ls=":")
        axis.set_ylabel(f"{variant.name}\n/ alone")
    axes[0][0].legend(loc="upper right", ncols=3, fontsize=7, frameon=False)
    axes[-1][0].set_xlabel("time (s)")
    figure.suptitle(f"{results.scenario_name}: iteration times", fontsize=10)
    return _save(plt, figure, out / "iterations.png")


def _short(action: str) -> str:
    """A scenario's own verbs as they are, the name alone of a command with a path."""
    words = action.split()
    return words[-1].rpartition(".")[2] if words and "/" in words[0] else action[:24]


def _ratios(variant: VariantResult, name: str) -> Floats:
    parts: Sequence[Floats] = [
        np.asarray(job.seconds) / job.summary.alone_s
        for run in variant.runs
        for job in run.jobs
        if job.name == name
    ]
    return np.concatenate(parts)


def _save(plt: Any, figure: Any, path: Path) -> Path:
    figure.savefig(path, dpi=130)
    plt.close(figure)
    return path
