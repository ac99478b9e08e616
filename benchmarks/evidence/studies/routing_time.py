"""The routing paper's computation time by number of flows."""

from __future__ import annotations

import time

from benchmarks.evidence import ring_jobs
from benchmarks.evidence.document import Curve, Evidence, Line, Request, Study
from benchmarks.evidence.ring_jobs import Method
from hostcc.schedule.paths.clos import Clos, Flows

RUNS = 3
QUICK_SETS = 2
MILLISECONDS = 0.1
"""Greedy counts as milliseconds below this many seconds."""


def seconds(method: Method, clos: Clos, flows: Flows, runs: int) -> float:
    """Return the least time of some runs."""
    least = float("inf")
    for _ in range(runs):
        begun = time.perf_counter()
        method(clos, flows)
        least = min(least, time.perf_counter() - begun)
    return least


def run(request: Request) -> Evidence:
    """Time path methods on the published sets, all jobs of a set at once."""
    size = ring_jobs.evaluation().fabric
    clos = ring_jobs.clos_of(size, 0)
    cases = [
        ring_jobs.all_flows([ring_jobs.flows_of(job, size) for job in jobs.jobs])
        for jobs in ring_jobs.evaluation().sets
    ]
    by_count = {len(flows.src): flows for flows in cases}
    counts = sorted(by_count)[: QUICK_SETS if request.quick else None]
    lines = []
    found: dict[str, list[float]] = {name: [] for name in ring_jobs.METHODS}
    for number, count in enumerate(counts):
        request.tell(f"{count} flows", number, len(counts))
        for name, method in ring_jobs.METHODS.items():
            runs = 1 if method is ring_jobs.optimum or request.quick else RUNS
            took = seconds(method, clos, by_count[count], runs)
            found[name].append(1e3 * took)
            is_greedy = method is ring_jobs.listed_order
            lines.append(
                Line(
                    setting=f"{count} flows",
                    figure=f"{name}, ms",
                    published=None,
                    here=1e3 * took,
                    bar="milliseconds" if is_greedy else "",
                    met=took < MILLISECONDS if is_greedy else None,
                    why="until the optimum is proved" if method is ring_jobs.optimum else "",
                )
            )
    return Evidence(
        lines=tuple(lines),
        missing=(
            "the figure's values and its machine: the source says milliseconds for greedy",
            "its commercial solver: HiGHS stands for it, so times of the ILP are another program's",
        ),
        notes=("wall time of this machine, with whatever else runs on it; the least of 3 runs",),
        curves=tuple(
            Curve(
                panel="computation time",
                label=name,
                x=tuple(map(float, counts)),
                y=tuple(own),
                x_label="flows",
                y_label="ms",
            )
            for name, own in found.items()
        ),
    )


STUDIES = (
    Study(
        "routing-7",
        "Routing for Large ML Models, Figure 7",
        "computation time of path methods by number of flows",
        run,
    ),
)
