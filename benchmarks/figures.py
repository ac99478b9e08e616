"""Pure: from lab results to the figures of one variant in one run, over all jobs.

Several lab results of the same scenario, measured one variant and one run at a time, become
one: each job's denominator is its best median time alone over all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import msgspec

from benchmarks.headings import Heading
from hostcc.lab import scenario_hosts, statistics
from hostcc.lab.results import JobResult, Results, RunResult, VariantResult


@dataclass(frozen=True)
class Figures:
    """All jobs of one run.  Ratios are iteration times over the time alone."""

    mean: Annotated[float, Heading("mean")]
    """Over all iterations, mean of the jobs."""
    first: Annotated[float, Heading("first ten")]
    """Of the first ten."""
    rest: Annotated[float, Heading("rest")]
    """Of those after the tenth."""
    p99_rest: Annotated[float, Heading("p99 of rest")]
    """99th percentile of those after the tenth, worst job."""
    slowest_job: Annotated[float, Heading("slowest job")]
    """Mean of the job that fared worst."""
    converged_after: Annotated[float | None, Heading("conv.", 0)]
    """Iterations until all jobs are within 5 % of alone at once; None: never."""
    loss_percent: Annotated[float, Heading("loss %", 2)]
    """At the bottleneck, worse direction."""
    background_mbit: Annotated[float, Heading("neighbour Mbit/s", 1)]
    """Sum of all background traffic; 0 without."""


def figures(run: RunResult) -> Figures:
    """The figures of one run of `combined` results."""
    jobs = [job.summary for job in run.jobs]
    return Figures(
        mean=_mean([job.ratio_mean for job in jobs]),
        first=_mean([job.ratio_first for job in jobs]),
        rest=_mean([job.ratio_rest for job in jobs]),
        p99_rest=max(job.ratio_p99_rest for job in jobs),
        slowest_job=max(job.ratio_mean for job in jobs),
        converged_after=run.converged_after,
        loss_percent=max((queue.loss_percent for queue in run.bottleneck.values()), default=0.0),
        background_mbit=sum(entry.mean_mbit for entry in run.background),
    )


def combined(parts: Sequence[Results]) -> Results:
    """One comparison out of parts of the same scenario, ratios computed anew.

    Variants keep the order in which they first appear; so do the runs of each.
    """
    first = parts[0]
    runs: dict[str, list[RunResult]] = {}
    alone: dict[str, dict[str, list[float]]] = {}
    for part in parts:
        for variant in part.variants:
            runs.setdefault(variant.name, []).extend(variant.runs)
            measured = alone.setdefault(variant.name, {})
            for job, seconds in variant.alone_seconds.items():
                measured[job] = [*measured.get(job, ()), *seconds]
    ideal = {
        job.name: scenario_hosts.ideal_seconds(job, first.scenario.fabric)
        for job in first.scenario.job
    }
    own = {
        name: {job: statistics.alone_time(seconds) for job, seconds in jobs.items() if seconds}
        for name, jobs in alone.items()
    }
    best = {**ideal, **statistics.best_alone(own)}
    return msgspec.structs.replace(
        first,
        variants=[
            VariantResult(
                name=name,
                alone_s={**best, **own[name]},
                alone_seconds=alone[name],
                runs=[_again(run, best, own[name]) for run in measured_runs],
            )
            for name, measured_runs in runs.items()
        ],
    )


def _again(run: RunResult, best: Mapping[str, float], own: Mapping[str, float]) -> RunResult:
    """A run with its ratios to other times alone."""
    jobs = [_job_again(job, best, own) for job in run.jobs]
    ratios = {job.name: [value / job.summary.alone_s for value in job.seconds] for job in jobs}
    return msgspec.structs.replace(
        run,
        jobs=jobs,
        converged_after=statistics.all_converged_after(
            {job.name: job.starts_s for job in jobs}, ratios
        ),
    )


def _job_again(job: JobResult, best: Mapping[str, float], own: Mapping[str, float]) -> JobResult:
    # A command has no computed ideal: what the lab took for it stays.
    alone = best.get(job.name) or job.summary.alone_s
    return msgspec.structs.replace(
        job, summary=statistics.summarise(job.seconds, alone, own.get(job.name, alone))
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
