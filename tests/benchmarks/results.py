"""Lab results made by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hostcc.lab import statistics
from hostcc.lab.results import (
    BackgroundResult,
    EventResult,
    JobResult,
    Machine,
    QueueResult,
    Results,
    RunResult,
    VariantResult,
)
from hostcc.lab.scenario import Scenario, from_document

SCENARIO: Scenario = from_document(
    {
        "job": [
            {"name": "a", "compute_ms": 60, "comm_ms": 40},
            {"name": "b", "compute_ms": 60, "comm_ms": 40},
        ]
    },
    "test",
)


def run(
    jobs: Mapping[str, Sequence[float]],
    *,
    loss: float = 0.0,
    background: float | None = None,
    events: Sequence[float] = (),
) -> RunResult:
    """One run from each job's iteration times; ratios as if alone took 0.1 s."""
    made = []
    for name, seconds in jobs.items():
        starts = [sum(seconds[:index]) for index in range(len(seconds))]
        summary = statistics.summarise(seconds, 0.1, 0.1)
        made.append(JobResult(name, summary, list(seconds), starts, 0, 1000))
    return RunResult(
        started_at_s=100.0,
        jobs=made,
        converged_after=None,
        bottleneck={"right": QueueResult(1000, 1, 1, loss), "left": QueueResult(1, 1, 0, 0.0)},
        marked_packets=0,
        background=[] if background is None else [BackgroundResult("x.0", background)],
        agents=[],
        events=[EventResult(at, "what", "") for at in events],
        series=None,
    )


def results(
    variant: str, runs: Sequence[RunResult], alone: Mapping[str, list[float]] | None = None
) -> Results:
    """One variant's results."""
    return Results(
        scenario_name="x",
        scenario=SCENARIO,
        iterations=len(runs[0].jobs[0].seconds),
        variants=[VariantResult(variant, {}, dict(alone or {}), list(runs))],
        machine=Machine("6.1", "x86_64", 2),
    )
