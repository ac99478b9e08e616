"""Run a comparison: for every variant, each job alone, then all together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from hostcc.lab import phase, results, scenario_hosts, statistics
from hostcc.lab.assignment import best
from hostcc.lab.dumbbell import Dumbbell
from hostcc.lab.errors import LabError
from hostcc.lab.events import started_later
from hostcc.lab.flowreport import flow_results, settled_results
from hostcc.lab.launch import port_of
from hostcc.lab.leafspine_lab import LeafSpineLab
from hostcc.lab.leafspine_scenario import LeafSpineScenario
from hostcc.lab.network import Network
from hostcc.lab.scenario import JobSpec, Scenario
from hostcc.lab.shaping import QueueCounters
from hostcc.lab.variants import Variant

Report = Callable[[str, int, int], None]
"""Progress: what is running, iterations done, iterations to do."""


@dataclass(frozen=True)
class Comparison:
    """What `hostcc lab run` was asked for."""

    name: str
    scenario: Scenario
    variants: tuple[Variant, ...]
    repeat: int = 1
    out: Path | None = None
    """Where series are kept; None: they are not."""
    seed: int = 1
    """Of the first run; each further one has the next."""
    live: phase.LiveWatch | None = None
    """Watches runs of all jobs together; None: nobody does."""


@dataclass(frozen=True)
class _Raw:
    """One variant's phases, before the best time alone is known."""

    variant: Variant
    alone: dict[str, list[float]]
    runs: list[tuple[phase.PhaseResult, dict[str, float]]]


def run(comparison: Comparison, report: Report) -> results.Results:
    """Run everything; raises LabError.  Nothing is left behind either way."""
    raw = [_run_variant(comparison, variant, report) for variant in comparison.variants]
    alone = {entry.variant.name: _alone_times(comparison.scenario, entry.alone) for entry in raw}
    best = statistics.best_alone(alone)
    return results.Results(
        scenario_name=comparison.name,
        scenario=comparison.scenario,
        iterations=comparison.scenario.iterations,
        variants=[
            results.VariantResult(
                name=entry.variant.name,
                alone_s=alone[entry.variant.name],
                alone_seconds=entry.alone,
                runs=[
                    _run_result(comparison, measured, rates, best, alone[entry.variant.name])
                    for measured, rates in entry.runs
                ],
            )
            for entry in raw
        ],
        machine=results.this_machine(),
    )


def _run_variant(comparison: Comparison, variant: Variant, report: Report) -> _Raw:
    scenario = comparison.scenario
    with network_of(scenario) as fabric:
        if variant.pinned:
            _pin(fabric, scenario)
        alone = _run_alone(fabric, scenario, variant, report)
        runs = []
        for number in range(comparison.repeat):
            what = variant.name + (f" #{number + 1}" if comparison.repeat > 1 else "")
            out = comparison.out or fabric.run_dir
            wanted = not isinstance(scenario, LeafSpineScenario)
            series = out / f"{variant.name}-{number + 1}.npz" if wanted else None
            measured = phase.run(
                fabric,
                phase.PhasePlan(
                    scenario,
                    scenario.job,
                    variant,
                    scenario.iterations,
                    seed=comparison.seed + number,
                    series=series,
                    status=out / f"{variant.name}-{number + 1}.status.json"
                    if comparison.out and variant.agent is not None
                    else None,
                    live=comparison.live,
                    title=what,
                ),
                lambda done, what=what: report(what, done, scenario.iterations),  # type: ignore[misc]
            )
            runs.append((measured, _background_rates(scenario, measured)))
    return _Raw(variant, alone, runs)


def network_of(scenario: Scenario) -> Network:
    """The network that a scenario describes, not built yet."""
    if isinstance(scenario, LeafSpineScenario):
        return LeafSpineLab(scenario.fabric)
    return Dumbbell(scenario.fabric, scenario_hosts.hosts_of(scenario))


def _pin(network: Network, scenario: Scenario) -> None:
    if not isinstance(network, LeafSpineLab) or not isinstance(scenario, LeafSpineScenario):
        raise LabError('variant best: only with kind = "leaf-spine"')
    found = best(scenario)
    if found is None:
        raise LabError("variant best: too many assignments to try all")
    network.pin(found.spines)


def _run_alone(
    fabric: Network, scenario: Scenario, variant: Variant, report: Report
) -> dict[str, list[float]]:
    """Each job by itself, without background, actions, arrival time, jitter and change.

    Jobs that differ in nothing but their names are run once.
    """
    count = scenario.alone_iterations
    alone: dict[str, list[float]] = {}
    twins: dict[JobSpec, str] = {}
    if not count or (len(scenario.job) == 1 and not scenario.background):
        return alone
    for job in scenario.job:
        quiet = msgspec.structs.replace(
            job,
            start_ms=0.0,
            stop_after_ms=0.0,
            iterations=0,
            jitter_percent=0.0,
            bytes_jitter_percent=0.0,
            change_at_iteration=0,
        )
        twin = twins.setdefault(msgspec.structs.replace(quiet, name="x"), job.name)
        if twin != job.name:
            alone[job.name] = alone[twin]
            continue
        what = f"{variant.name}, {job.name} alone"
        only = msgspec.structs.replace(
            scenario, job=tuple(quiet if other is job else other for other in scenario.job)
        )
        measured = phase.run(
            fabric,
            phase.PhasePlan(only, (quiet,), variant, count, background=False, actions=False),
            lambda done, what=what: report(what, done, count),  # type: ignore[misc]
        )
        alone[job.name] = [step.seconds for step in measured.iterations[job.name]]
    return alone


def _alone_times(scenario: Scenario, alone: Mapping[str, Sequence[float]]) -> dict[str, float]:
    times = {}
    for job in scenario.job:
        measured = alone.get(job.name)
        if measured:
            times[job.name] = statistics.alone_time(measured)
        elif not job.command:
            times[job.name] = scenario_hosts.ideal_seconds(job, scenario.fabric)
    return times


def _run_result(
    comparison: Comparison,
    measured: phase.PhaseResult,
    rates: Mapping[str, float],
    best: Mapping[str, float],
    own: Mapping[str, float],
) -> results.RunResult:
    jobs = []
    starts: dict[str, list[float]] = {}
    ratios: dict[str, list[float]] = {}
    for job in comparison.scenario.job:
        steps = measured.iterations[job.name]
        if not steps:
            raise LabError(f"job {job.name}: reported no iteration")
        seconds = [step.seconds for step in steps]
        alone = best.get(job.name) or statistics.alone_time(seconds)
        starts[job.name] = [step.start - measured.start for step in steps]
        ratios[job.name] = [value / alone for value in seconds]
        again, sent = measured.retransmitted[job.name]
        since = measured.turns.get(job.name)
        jobs.append(
            results.JobResult(
                name=job.name,
                summary=statistics.summarise(seconds, alone, own.get(job.name, alone)),
                seconds=seconds,
                starts_s=starts[job.name],
                retransmitted_segments=again,
                sent_segments=sent,
                turns_from_s=since - measured.start if since is not None else None,
            )
        )
    return results.RunResult(
        started_at_s=measured.start,
        jobs=jobs,
        converged_after=statistics.all_converged_after(starts, ratios) if jobs else None,
        bottleneck={
            direction: _queue_result(counters) for direction, counters in measured.queues.items()
        },
        marked_packets=measured.marked,
        background=[results.BackgroundResult(*entry) for entry in rates.items()],
        agents=[
            results.AgentResult(host, usage["cpu_seconds"], usage["resident_bytes"])
            for host, usage in measured.agents.items()
            if usage
        ],
        events=[results.EventResult(*event) for event in measured.events],
        series=measured.series.name if measured.series and comparison.out else None,
        resets=measured.resets,
        out_of_order=measured.tcp.out_of_order,
        **_flows(comparison.scenario, measured),
    )


def _flows(scenario: Scenario, measured: phase.PhaseResult) -> dict[str, Any]:
    """Fields that only a leaf-spine fabric has."""
    if not isinstance(scenario, LeafSpineScenario) or not measured.snapshots:
        return {}
    hosts = {host.address: host.name for host in LeafSpineLab(scenario.fabric).hosts}
    jobs = {port_of(number): (job.name, job.flows) for number, job in enumerate(scenario.job)}
    late = started_later(scenario)
    arrived: dict[float, list[str]] = {}
    for job in scenario.job:
        if job.name not in late:
            arrived.setdefault(job.start_ms / 1e3, []).append(job.name)
    happened = [(at, ", ".join(names) + " begins") for at, names in arrived.items()]
    happened += [(at, what) for at, what, _ in measured.events]
    return {
        "flows": flow_results(measured.snapshots[-1][1], measured.start, hosts, jobs),
        "settled": settled_results(
            measured.snapshots,
            measured.start,
            sorted(happened),
            {port: count for port, (_, count) in jobs.items()},
            {
                port: max((step.end for step in measured.iterations[name]), default=0.0)
                for port, (name, _) in jobs.items()
            },
        ),
    }


def _queue_result(counters: QueueCounters) -> results.QueueResult:
    return results.QueueResult(
        counters.packets, counters.bytes, counters.drops, counters.loss_percent
    )


def _background_rates(scenario: Scenario, measured: phase.PhaseResult) -> dict[str, float]:
    """Mean rate of each background at its receiver while it was active and the jobs ran."""
    if not scenario.background or measured.series is None:
        return {}
    with np.load(measured.series) as data:
        times, ports, counters = data["times"], list(data["ports"]), data["bytes"]
    hosts = scenario_hosts.hosts_of(scenario)
    end_of_run = times[-1]
    rates = {}
    for number, spec in enumerate(scenario.background):
        owner = f"{spec.name}.{number}"
        receiver = next(host for host in hosts if host.owner == owner and host.rank == 1)
        begin = measured.start + spec.start_ms / 1e3
        end = min(end_of_run, measured.start + spec.stop_ms / 1e3) if spec.stop_ms else end_of_run
        inside = np.flatnonzero((times >= begin) & (times <= end))
        if len(inside) < 2:
            rates[owner] = 0.0
            continue
        first, last = inside[0], inside[-1]
        column = counters[:, ports.index(receiver.name)]
        sent = float(column[last] - column[first])
        rates[owner] = sent * 8 / 1e6 / float(times[last] - times[first])
    return rates
