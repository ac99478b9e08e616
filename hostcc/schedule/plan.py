"""ClusterView -> Plan: pure, deterministic, whatever the order of the view's parts."""

from __future__ import annotations

import math
from dataclasses import dataclass

from hostcc.model import ClusterView, FlowPlan, JobPlan, Plan
from hostcc.schedule import baselines_order, checked, compression, fairness, methods
from hostcc.schedule import order as orders
from hostcc.schedule.components import Small
from hostcc.schedule.contention import graph, pairs
from hostcc.schedule.errors import OptionsError
from hostcc.schedule.intensity import communication_time, intensity
from hostcc.schedule.problem import Floats, Ints, Problem, build

DEFAULT = "hostcc"


@dataclass(frozen=True)
class Options:
    """What the operator decides; the same on every host."""

    levels: int = 8
    """Priority levels of the network, 0 the highest."""
    reserved: tuple[int, ...] = ()
    """Levels that jobs must not use."""
    paths: str = DEFAULT
    """methods.ROUTES."""
    order: str = DEFAULT
    """methods.ORDERS."""
    compression: str = "exact"
    """compression.METHODS."""
    fairness: float = 0.0
    """Power of recent slow-downs in what a job counts; 0: throughput alone."""
    most_loss: float = math.inf
    """No job shall lose more of its speed than this fraction, as predicted; inf: no bound."""
    simulations: int = 400
    """Schedules simulated to check small views; 0: never."""


@dataclass(frozen=True)
class Decision:
    """A schedule in arrays."""

    routing: Ints
    """(F,)"""
    rank: Ints
    """(J,)"""
    level: Ints
    """(J,) of the usable levels, counted from 0."""
    how: str
    """For a person."""


def plan(view: ClusterView, options: Options | None = None) -> Plan:
    """The plan of a view.  Raises ViewError and OptionsError, in one line."""
    options = Options() if options is None else options
    problem = build(view)
    usable = compression.usable_levels(options.levels, options.reserved)
    decision = decide(problem, options, len(usable))
    times = communication_time(problem, decision.routing)
    priority = _priority(problem, decision, times, options)
    level = usable[decision.level]
    # What a job contends with is unknown: doubt means best effort.
    level[problem.blind] = usable[-1]
    jobs = zip(
        problem.job_ids,
        decision.rank.tolist(),
        level.tolist(),
        priority.tolist(),
        times.tolist(),
        problem.blind.tolist(),
        strict=True,
    )
    return Plan(
        digest=view.digest,
        jobs=tuple(
            JobPlan(job, rank, its, value, reason=_reason(value, seconds, blind))
            for job, rank, its, value, seconds, blind in jobs
        ),
        flows=tuple(
            FlowPlan(flow, problem.path_ids[path])
            for flow, path in sorted(zip(problem.flow_ids, decision.routing.tolist(), strict=True))
        ),
        reason=decision.how,
    )


def decide(problem: Problem, options: Options, levels: int) -> Decision:
    """Paths, order and levels of a problem, on `levels` levels.  Raises OptionsError."""
    _check(options)
    worth = fairness.worth(problem.work, problem.weight, problem.slowdown, options.fairness)
    default = (options.paths, options.order, options.compression) == (DEFAULT, DEFAULT, "exact")
    bound = math.isfinite(options.most_loss)
    if default and not bound and options.simulations and checked.fits(problem):
        small = Small(problem)
        judge = checked.oracle(small, worth)
        found = checked.search(small, judge, worth, levels, options.simulations)
        how = f"{found.simulated} schedules simulated"
        return Decision(found.routing, found.rank, found.level, how)
    routing = methods.ROUTES[options.paths](problem)
    if options.order == DEFAULT:
        rank = methods.by_losses(problem, routing, worth)
    else:
        rank = methods.ORDERS[options.order](problem, routing)
    met = pairs(problem, routing)
    if bound:
        jobs = methods.alone(problem, routing)
        rank = fairness.bounded(rank, orders.losses(jobs, met), options.most_loss)
    times = communication_time(problem, routing)
    contention = graph(met, rank, intensity(worth, times))
    level = compression.METHODS[options.compression](contention, rank, levels)
    how = f"paths: {options.paths}, order: {options.order}, levels: {options.compression}"
    return Decision(routing, rank, level, how)


def _check(options: Options) -> None:
    known = {
        "paths": list(methods.ROUTES),
        "order": list(methods.ORDERS),
        "compression": list(compression.METHODS),
    }
    for name, names in known.items():
        value = getattr(options, name)
        if value not in names:
            raise OptionsError(f"{name}: expected one of {', '.join(names)}, got {value!r:.40}")


def _priority(problem: Problem, decision: Decision, times: Floats, options: Options) -> Floats:
    if options.order == "crux":
        return baselines_order.crux_priority(problem, decision.routing)
    return intensity(problem.work, times)


def _reason(value: float, seconds: float, blind: bool) -> str:
    if blind:
        return "no usable path is known for its traffic: best effort"
    if not seconds:
        return "sends nothing that is worth a priority"
    return f"{value:.4g} FLOP per second of traffic, {seconds:.4g} s of it in an iteration"
