"""Pure: figures of one run on a leaf-spine fabric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from benchmarks.record import Spread, number, spread
from hostcc.lab.assignment import intensities, utilisation
from hostcc.lab.leafspine_lab import spec_of
from hostcc.lab.leafspine_plan import hosts_of
from hostcc.lab.leafspine_scenario import LeafSpineScenario
from hostcc.lab.results import RunResult
from hostcc.lab.scenario_hosts import ideal_seconds


class Figures(msgspec.Struct, frozen=True):
    """One run; seconds."""

    settled: dict[str, float | None]
    """Mean iteration time of each job once the time to settle is over; None: no iteration."""
    first: dict[str, float | None]
    """Before that."""
    utilisation: float
    """Weighted by GPU intensity, after the time to settle."""
    settled_after_s: float | None
    """From the last arrival to the last change of a path or mark; None: a flow stood still."""
    meeting: int
    """Connections that share a link between leaf and spine with another at the end."""
    resets: int
    retransmitted_percent: float
    """Of segments."""
    out_of_order: int
    cpu_percent: float
    """Of the machine, that agents took; 0 without."""


def figures(
    scenario: LeafSpineScenario, run: RunResult, settle_s: float, processors: int
) -> Figures:
    """Figures of a run; iterations that begin before `settle_s` are the first."""
    early, late = {}, {}
    for job in run.jobs:
        both = list(zip(job.starts_s, job.seconds, strict=True))
        early[job.name] = _mean([took for start, took in both if start < settle_s])
        late[job.name] = _mean([took for start, took in both if start >= settle_s])
    sent = sum(job.sent_segments for job in run.jobs)
    again = sum(job.retransmitted_segments for job in run.jobs)
    arrivals = [one for one in run.settled if one.what.endswith("begins")]
    end = max((job.starts_s[-1] + job.seconds[-1] for job in run.jobs), default=0.0)
    busy = sum(agent.cpu_seconds for agent in run.agents)
    return Figures(
        settled=late,
        first=early,
        utilisation=_utilisation(scenario, late),
        settled_after_s=arrivals[-1].seconds if arrivals else None,
        meeting=_meeting(scenario, run),
        resets=run.resets,
        retransmitted_percent=100 * again / sent if sent else 0.0,
        out_of_order=run.out_of_order,
        cpu_percent=100 * busy / (end * processors) if end else 0.0,
    )


def _meeting(scenario: LeafSpineScenario, run: RunResult) -> int:
    leaf_of = {host.name: host.leaf for host in hosts_of(spec_of(scenario.fabric))}
    on: dict[tuple[int, int, str], list[int]] = {}
    number = 0
    for flow in run.flows:
        for spine in flow.spines:
            on.setdefault((leaf_of[flow.src], spine, "up"), []).append(number)
            on.setdefault((leaf_of[flow.dst], spine, "down"), []).append(number)
            number += 1
    return len({one for together in on.values() if len(together) > 1 for one in together})


def _utilisation(scenario: LeafSpineScenario, seconds: Mapping[str, float | None]) -> float:
    alone = [ideal_seconds(job, scenario.fabric) for job in scenario.job]
    return utilisation(scenario.job, alone, [number(seconds.get(job.name)) for job in scenario.job])


def ratios(runs: Sequence[Figures], best: Mapping[str, float], job: str) -> list[float | None]:
    """A job's iteration time in each run over that under the best assignment."""
    made: list[float | None] = []
    for run in runs:
        took = run.settled.get(job)
        made.append(None if took is None else took / best[job])
    return made


def intensive(scenario: LeafSpineScenario) -> str:
    """The job with the highest GPU intensity, W / t."""
    alone = [ideal_seconds(job, scenario.fabric) for job in scenario.job]
    each = intensities(scenario.job, alone)
    return scenario.job[each.index(max(each))].name


def best_seconds(runs: Sequence[Figures]) -> dict[str, float]:
    """Each job's iteration time under the best assignment: the median over its runs."""
    jobs = runs[0].settled
    found = {job: spread([run.settled.get(job) for run in runs]).median for job in jobs}
    return {job: seconds for job, seconds in found.items() if seconds}


def over_jobs(runs: Sequence[Figures], best: Mapping[str, float]) -> tuple[Spread, Spread]:
    """Mean and worst job's ratio to the best assignment, over the runs."""
    table = [ratios(runs, best, job) for job in best]
    columns = [[number(value) for value in column] for column in zip(*table, strict=True)]
    means = [_finite(sum(column) / len(column)) for column in columns]
    return spread(means), spread([_finite(max(column)) for column in columns])


def _finite(value: float) -> float | None:
    return value if value != float("inf") else None


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
