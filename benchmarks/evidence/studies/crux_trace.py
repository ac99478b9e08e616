"""Crux's trace statistics and contention at risk, on a generated trace of the same schema."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from benchmarks.evidence import readings
from benchmarks.evidence.document import Curve, Evidence, Kind, Line, Request, Study
from hostcc.sim import fabrics, trace_description, trace_files

SEED = 7
RATE = 200 * fabrics.GBIT
QUICK_TRIES = 1
DAY_MINUTES = 24 * 60
SIZES = {f"jobs of up to {gpus} GPUs": float(gpus) for gpus in trace_description.SIZES if gpus >= 8}
RISK = "jobs at risk, mean share"
GPU_RISK = "GPUs at risk, mean share"
CHOSEN = "starts and sizes of jobs are drawn to follow the published curve"
COUNTED = "sizes are drawn by published counts"
WHY: Mapping[str, str] = {
    "jobs of 8 GPUs or more, mean": CHOSEN,
    "jobs of 8 GPUs or more, max": CHOSEN,
    "active GPUs, mean": CHOSEN,
    "active GPUs, max": CHOSEN,
    RISK: "how often jobs avoid others' ToRs is set so that this comes out",
    **dict.fromkeys(SIZES, COUNTED),
}
"""Of fitted figures."""


def run(request: Request) -> Evidence:
    """Generate a trace, describe it, and put it beside the figures."""
    tries = QUICK_TRIES if request.quick else trace_files.TRIES
    rows = trace_files.generate(SEED, request.tell, tries)
    with tempfile.TemporaryDirectory() as folder:
        trace_files.write(rows, Path(folder))
        found = trace_description.describe(Path(folder), RATE, RATE)
    here = {one.name: one.value for own in found.groups.values() for one in own}
    risk_of_gpus = readings.mean_over_time(
        *readings.curve("crux-fig06b-gpu-ratio-at-risk-network.csv")
    )
    pcie = readings.mean_over_time(*readings.curve("crux-fig06a-ratio-at-risk-pcie.csv"))
    lines = [
        *(_line("Fig. 4", name, _size_share(gpus), here, "fitted") for name, gpus in SIZES.items()),
        *(
            _line("Fig. 5", name, trace_description.PUBLISHED[name], here, "fitted")
            for name in WHY
            if WHY[name] == CHOSEN
        ),
        _line("Fig. 6a, network", RISK, trace_description.PUBLISHED[RISK], here, "fitted"),
        _line(
            "Fig. 6a, network",
            "jobs at risk, max",
            float(readings.curve("crux-fig06a-jobs-at-risk-network.csv")[1].max()),
            here,
            "predicted",
        ),
        _line(
            "Fig. 6b, network",
            GPU_RISK,
            risk_of_gpus,
            here,
            "predicted",
            why="published: mean over time of the curve; which sizes avoid others' ToRs is not",
        ),
    ]
    return Evidence(
        lines=tuple(lines),
        missing=(
            (
                "the trace itself (job.csv, worker.csv): generated files with its published counts "
                "stand for them"
            ),
            "rates of the production fabric: 200 Gbit/s of all links stand for them",
            (
                f"contention of PCIe switches (Fig. 6a: {100 * pcie:.1f} % of jobs on average): "
                "the schema does not say which GPUs a job had, and generated hosts are whole"
            ),
        ),
        notes=(
            "36.3 % is a mean over time, not a share of all jobs",
            (
                "the text says that over 10 % of jobs have 128 GPUs and more; Fig. 4 has "
                f"{100 * (1 - _size_share(124.9)):.0f} %"
            ),
            *(("quick: one placement is tried, so the fit is loose",) * request.quick),
        ),
        curves=(*_sizes(here), *_risk(found)),
    )


def _size_share(gpus: float) -> float:
    sizes, shares = readings.curve("crux-fig04-job-sizes-cdf.csv")
    # A CDF of steps, sampled 5 GPUs apart: the next sample has all jobs of this size.
    return float(shares[min(int(np.searchsorted(sizes, gpus)), len(shares) - 1)])


def _line(
    setting: str, name: str, published: float, here: Mapping[str, float], kind: Kind, why: str = ""
) -> Line:
    return Line(
        setting=setting,
        figure=name,
        published=published,
        here=here[name],
        kind=kind,
        why=why or WHY.get(name, ""),
    )


def _sizes(here: Mapping[str, float]) -> tuple[Curve, ...]:
    sizes, shares = readings.curve("crux-fig04-job-sizes-cdf.csv")
    words = {"panel": "Fig. 4: sizes of jobs", "x_label": "GPUs", "y_label": "share of jobs"}
    own = tuple(here[name] for name in SIZES)
    return (
        Curve(label="published", x=tuple(sizes.tolist()), y=tuple(shares.tolist()), **words),
        Curve(label="here", x=tuple(SIZES.values()), y=own, **words),
    )


def _risk(found: trace_description.Description) -> tuple[Curve, ...]:
    words = {"panel": "Fig. 6a: share of large jobs at risk", "x_label": "day", "y_label": "share"}
    days, shares = readings.curve("crux-fig06a-ratio-at-risk-network.csv")
    timeline = found.timeline
    large = timeline.values["large_jobs"]
    own = timeline.values["jobs_at_risk"] / np.maximum(large, 1)
    step = max(1, len(own) // 2000)
    times = (timeline.minutes[: len(own)] - timeline.minutes[0]) / DAY_MINUTES - 1
    return (
        Curve(label="published", x=tuple(days.tolist()), y=tuple(shares.tolist()), **words),
        Curve(
            label="here", x=tuple(times[::step].tolist()), y=tuple(own[::step].tolist()), **words
        ),
    )


STUDIES = (
    Study(
        "crux-4-5-6",
        "Crux, Figures 4 to 6",
        "sizes of jobs, concurrent jobs and GPUs, contention at risk",
        run,
    ),
)
