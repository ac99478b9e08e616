"""Replays a trace on a fabric under one scheduler: from jobs, routes and plans to results.

Jobs start when and where the trace says, so hosts may be used by several jobs at once, or where a
placement puts them (hostcc.sim.placement). A job's
iterations are its recorded duration over its iteration alone. The recorded duration already
contains contention, so jobs are longer here than they were. The replay ends when the time asked for
does, and jobs that have not finished by then are counted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hostcc.errors import InputError
from hostcc.sim.cluster_conditions import Conditions
from hostcc.sim.cluster_controller import ClusterController
from hostcc.sim.cluster_jobs import PlacedJob, Setting, placed_jobs, seconds_alone, spread_routes
from hostcc.sim.cluster_risk import RiskRecord
from hostcc.sim.cluster_schedulers import SCHEDULERS
from hostcc.sim.fabrics import CLASSES, Topology
from hostcc.sim.flowsim.run import Options, Outcome, simulate
from hostcc.sim.flowsim.workload import Fabric, Floats, Ints, pack
from hostcc.sim.released import Trace
from hostcc.sim.trace_timeline import HOST_GPUS
from hostcc.sim.workload_table import Workloads

DAY_MINUTES = 24 * 60
MOST_LEVELS = 4094
"""The engine has two more: for jobs that are profiled, and for those that no plan knows."""
SAMPLES = 240
"""Points of the course of the utilisation."""
MOSTLY = 0.5
"""Share of its time at the lowest level from which a job counts as one of that."""


@dataclass(frozen=True)
class Cluster:
    """What is replayed, the same for all schedulers."""

    topology: Topology
    jobs: tuple[PlacedJob, ...]
    routes: tuple[list[tuple[int, ...]], ...]
    """By job: paths before the first plan, and of a job alone."""
    alone: Floats
    """(J,) seconds of an iteration alone."""
    iterations: Ints
    """(J,)"""
    end: float
    """Seconds that are replayed."""
    left_out: Mapping[str, int]
    """Jobs by reason."""
    seed: int = 0
    """Of choices by hash."""


@dataclass(frozen=True)
class How:
    """How a cluster is replayed, beside who schedules."""

    levels: int = 8
    conditions: Conditions = field(default_factory=Conditions)

    def __post_init__(self) -> None:
        """Check; raises InputError."""
        if not 1 <= self.levels <= MOST_LEVELS:
            raise InputError(f"levels: expected 1 to {MOST_LEVELS}, got {self.levels}")


@dataclass(frozen=True)
class ClusterResult:
    """What came of it under one scheduler."""

    scheduler: str
    figures: Mapping[str, Any]
    """As in hostcc.sim/1, apart from `seconds`."""
    seconds: Mapping[str, float]
    """That the engine and planning took."""
    jobs: tuple[Mapping[str, Any], ...]
    """A row for each job."""


def cluster(
    trace: Trace,
    topology: Topology,
    workloads: Workloads,
    first: int,
    minutes: int,
    setting: Setting | None = None,
) -> Cluster:
    """Prepare a replay of `minutes` from minute `first` on. Raises InputError."""
    if len(topology.host_tors) < len(trace.hosts):
        raise InputError(
            f"{topology.name}: expected {len(trace.hosts)} hosts, as the trace has, "
            f"got {len(topology.host_tors)}"
        )
    setting = setting or Setting()
    jobs, left_out = placed_jobs(trace, topology, workloads, first, first + minutes, setting)
    if not jobs:
        raise InputError(f"trace: expected a job that starts in these {minutes} minutes")
    return of_jobs(jobs, topology, minutes * 60.0, left_out, setting.seed)


def of_jobs(
    jobs: tuple[PlacedJob, ...],
    topology: Topology,
    end: float,
    left_out: Mapping[str, int],
    seed: int,
) -> Cluster:
    """Prepare a replay of jobs that are placed. Raises InputError."""
    routes = tuple(spread_routes(topology, job.flows) for job in jobs)
    alone = seconds_alone(topology, jobs, routes)
    recorded = np.array([job.seconds for job in jobs])
    iterations = np.maximum(1, np.round(recorded / alone)).astype(np.int64)
    return Cluster(topology, jobs, routes, alone, iterations, end, left_out, seed)


def run(
    given: Cluster,
    scheduler: str,
    how: How | None = None,
    progress: Callable[[str, int, int], None] = lambda *_: None,
) -> ClusterResult:
    """Replay a cluster under a scheduler, a key of SCHEDULERS. Raises InputError."""
    how = how or How()
    if scheduler not in SCHEDULERS:
        raise InputError(f"scheduler: expected {', '.join(SCHEDULERS)}, got {scheduler!r:.40}")
    who = SCHEDULERS[scheduler]
    if not who.shared:
        return _alone(given, scheduler)
    jobs = [
        job.simulated(routes, job.start, int(count))
        for job, routes, count in zip(given.jobs, given.routes, given.iterations, strict=True)
    ]
    capacity = given.topology.link_rates
    control = ClusterController(
        given.topology,
        given.jobs,
        given.alone.tolist(),
        who,
        how.levels,
        how.conditions,
        given.seed,
        lambda now: progress(scheduler, int(now), int(given.end)),
    )
    begun = time.perf_counter()
    options = Options(ramp=who.ramp, samples=_times(given)[1:])
    found = simulate(Fabric.of(capacity), pack(jobs), given.end, control, options)
    took = time.perf_counter() - begun
    control.risk.now(given.end, ())
    computed = [np.zeros(len(jobs)), *(sample.compute_seconds for sample in found.samples)]
    figures = {
        **_figures(given, found.compute_seconds, found.finished),
        "network_utilisation": _by_class(given, found.carried),
        "throughput_loss_lowest_level": _loss_of_lowest(given, found, control.risk),
        "at_risk": control.risk.figures(),
        "moves": control.moves,
        "plans": control.plans,
        "course": _course(given, np.diff(computed, axis=0), found.finished),
    }
    seconds = {
        "engine": took - control.planning_seconds,
        "planning": control.planning_seconds,
    }
    return ClusterResult(
        scheduler, figures, seconds, _rows(given, found.finished, found.compute_seconds)
    )


def _alone(given: Cluster, scheduler: str) -> ClusterResult:
    """Return what jobs would do without each other: known without a simulation of the cluster."""
    starts = np.array([job.start for job in given.jobs])
    finished = starts + given.alone * given.iterations
    finished = np.where(finished <= given.end, finished, np.nan)
    spent = np.where(np.isnan(finished), given.end, finished) - starts
    share = np.array([job.size.compute_s for job in given.jobs]) / given.alone
    figures = {
        **_figures(given, spent * share, finished),
        "network_utilisation": {},
        "throughput_loss_lowest_level": None,
        "at_risk": {"jobs": 0.0, "gpus": 0.0, "jobs_ever": 0, "gpus_ever": 0},
        "moves": 0,
        "plans": 0,
        "course": _course(given, _held(given, finished) * share, finished),
    }
    rows = _rows(given, finished, spent * share)
    return ClusterResult(scheduler, figures, {"engine": 0.0, "planning": 0.0}, rows)


def _figures(given: Cluster, computed: Floats, finished: Floats) -> dict[str, Any]:
    """Return figures from seconds of computation (J,) and times of leaving (J,), NaN: stayed."""
    starts = np.array([job.start for job in given.jobs])
    gpus = np.array([job.gpus for job in given.jobs], np.float64)
    held = (np.where(np.isnan(finished), given.end, finished) - starts) * gpus
    share = np.array([job.size.compute_s for job in given.jobs]) / given.alone
    used = float((computed * gpus).sum() / held.sum())
    cluster_seconds = len(given.topology.host_tors) * HOST_GPUS * given.end
    done = ~np.isnan(finished)
    ratio = ((finished - starts) / (given.alone * given.iterations))[done]
    return {
        "utilisation": used,
        "utilisation_cluster": float((computed * gpus).sum() / cluster_seconds),
        "utilisation_alone": float((computed * gpus).sum() / (held * share).sum()),
        "jct_ratio": _spread(ratio) if done.any() else None,
        "jobs": len(given.jobs),
        "unfinished": int((~done).sum()),
    }


def _times(given: Cluster) -> Floats:
    """Return the edges of the spans of the course."""
    return np.linspace(0.0, given.end, SAMPLES + 1)


def _held(given: Cluster, finished: Floats) -> Floats:
    """Return (N, J) seconds that jobs were there in each span of the course."""
    starts = np.array([job.start for job in given.jobs])
    ends = np.where(np.isnan(finished), given.end, finished)
    edges = _times(given)[:, None]
    held: Floats = np.minimum(ends, edges[1:]) - np.maximum(starts, edges[:-1])
    return np.maximum(held, 0.0)


def _course(given: Cluster, computed: Floats, finished: Floats) -> dict[str, list[float | None]]:
    """Return the utilisation in each span of time; `computed` (N, J) seconds; null: no job."""
    gpus = np.array([job.gpus for job in given.jobs], np.float64)
    held, used = _held(given, finished) @ gpus, computed @ gpus
    return {
        "until_s": _times(given)[1:].tolist(),
        "utilisation": [
            float(one / all_of) if all_of > 0 else None
            for one, all_of in zip(used, held, strict=True)
        ],
    }


def _loss_of_lowest(given: Cluster, found: Outcome, risk: RiskRecord) -> float | None:
    """Return the mean loss of throughput of jobs that were mostly at the lowest level."""
    which = np.flatnonzero(risk.lowest > MOSTLY * np.maximum(risk.present, 1e-9))
    if not len(which):
        return None
    speed = found.iterations[which] * given.alone[which] / risk.present[which]
    return float(1 - np.minimum(speed, 1.0).mean())


def _spread(ratio: Floats) -> dict[str, float]:
    p50, p99 = np.percentile(ratio, [50, 99]).tolist()
    return {"mean": float(ratio.mean()), "p50": p50, "p99": p99, "max": float(ratio.max())}


def _by_class(given: Cluster, carried: Floats) -> dict[str, float]:
    kinds, rates = given.topology.link_class, np.array(given.topology.link_rates)
    return {
        CLASSES[kind]: float(
            carried[kinds == kind].sum() / (rates[kinds == kind].sum() * given.end)
        )
        for kind in sorted(set(kinds.tolist()))
    }


def _rows(given: Cluster, finished: Floats, computed: Floats) -> tuple[Mapping[str, Any], ...]:
    return tuple(
        {
            "job": job.traced.name,
            "model": job.model,
            "gpus": job.gpus,
            "hosts": len(job.traced.hosts),
            "start_s": job.start,
            "iterations": int(count),
            "alone_s": float(alone),
            "finished_s": None if np.isnan(end) else float(end),
            "computed_s": float(seconds),
        }
        for job, count, alone, end, seconds in zip(
            given.jobs, given.iterations, given.alone, finished, computed, strict=True
        )
    )


def busiest(trace: Trace, minutes: int) -> int:
    """Return the midnight (minutes since 1970) from which jobs hold most GPUs in a span.

    The earliest of equals. Raises InputError for a trace without a job on a host.
    """
    jobs = [job for job in trace.jobs if job.hosts and job.end > job.start]
    if not jobs:
        raise InputError("trace: expected a job that ran on hosts")
    start = np.array([job.start for job in jobs])
    end = np.array([job.end for job in jobs])
    gpus = np.array([sum(amount for _, amount in job.hosts) for job in jobs])
    at, place = np.unique([start, end], return_inverse=True)
    steps = np.zeros(len(at), np.int64)
    np.add.at(steps, place.ravel(), np.concatenate([gpus, -gpus]))
    held = np.cumsum(steps)
    minutes_held = np.concatenate([[0], np.cumsum(held[:-1] * np.diff(at))])

    def until(when: Ints) -> Ints:
        """GPU-minutes until then."""
        last = np.searchsorted(at, when, side="right") - 1
        found: Ints = minutes_held[last] + held[last] * (when - at[last])
        return np.where(last < 0, 0, found)

    first = int(start.min()) // DAY_MINUTES * DAY_MINUTES
    midnights = np.arange(first, int(end.max()), DAY_MINUTES)
    return int(midnights[np.argmax(until(midnights + minutes) - until(midnights))])
