"""ClusterView -> Plan: pure, deterministic, whatever the order of the view's parts.

A flow whose path is known stays on it unless a gain is stated (paths/disturbance.py).  Where
links are offered far more than they carry the pairwise model is not asked: Crux's paths, or
those that the flows are on, and the order by intensity stay.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hostcc.model import ClusterView, FlowPlan, JobPlan, Plan
from hostcc.schedule import baselines_order, checked, compression, fairness, methods, parameters
from hostcc.schedule import order as orders
from hostcc.schedule.components import Small
from hostcc.schedule.contention import Pairs, graph, nearest, pairs
from hostcc.schedule.errors import OptionsError
from hostcc.schedule.intensity import communication_time, intensity
from hostcc.schedule.paths import disturbance
from hostcc.schedule.problem import Floats, Ints, Problem, build
from hostcc.schedule.shifts import Shifts, shifts

DEFAULT = "hostcc"
MOST_EDGES = 40_000
"""Pairs that levels are chosen for; of more, those next to each other in rank on their links."""


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
class Moved:
    """Flows that leave a path on which they could have stayed."""

    flows: tuple[int, ...]
    gain: str
    """What that gains, for a person."""


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
    moved: tuple[Moved, ...] = ()
    met: Pairs | None = None
    """Who meets whom, where that is known already."""


@dataclass(frozen=True)
class Solution:
    """Everything that a plan says, in arrays."""

    problem: Problem
    options: Options
    decision: Decision
    level: Ints
    """(J,) of the network's levels."""
    times: Floats
    """(J,) t, seconds."""
    priority: Floats
    """(J,)"""
    met: Pairs
    shifts: Shifts
    weight: Floats
    """(J,) of the congestion control."""


def plan(view: ClusterView, options: Options | None = None) -> Plan:
    """The plan of a view.  Raises ViewError and OptionsError, in one line."""
    return written(view.digest, solve(view, options))


def solve(view: ClusterView, options: Options | None = None) -> Solution:
    """What plan() writes down.  Raises ViewError and OptionsError."""
    options = Options() if options is None else options
    problem = build(view)
    usable = compression.usable_levels(options.levels, options.reserved)
    decision = decide(problem, options, len(usable))
    times = communication_time(problem, decision.routing)
    level = usable[decision.level]
    # What a job contends with is unknown: doubt means best effort.
    level[problem.blind] = usable[-1]
    met = pairs(problem, decision.routing) if decision.met is None else decision.met
    competing = np.zeros(problem.job_count, np.bool_)
    competing[met.one] = competing[met.other] = True
    return Solution(
        problem,
        options,
        decision,
        level,
        times,
        _priority(problem, decision, times, options),
        met,
        shifts(problem, decision.routing),
        parameters.weights(level, problem.weight, competing),
    )


def written(digest: str, found: Solution) -> Plan:
    """The plan of a solution; `digest`: of its view."""
    problem, routing = found.problem, found.decision.routing
    contenders = np.bincount(found.met.one, minlength=problem.job_count)
    contenders += np.bincount(found.met.other, minlength=problem.job_count)
    jobs = zip(
        problem.job_ids,
        found.decision.rank.tolist(),
        found.level.tolist(),
        found.priority.tolist(),
        found.shifts.seconds.tolist(),
        found.weight.tolist(),
        found.times.tolist(),
        contenders.tolist(),
        problem.blind.tolist(),
        found.shifts.reason,
        strict=True,
    )
    return Plan(
        digest=digest,
        jobs=tuple(
            JobPlan(
                job,
                rank,
                its,
                value,
                shift,
                ((parameters.WEIGHT, weight),),
                _reason(value, seconds, others, blind, why),
            )
            for job, rank, its, value, shift, weight, seconds, others, blind, why in jobs
        ),
        flows=tuple(
            FlowPlan(flow, problem.path_ids[path])
            for flow, path in sorted(zip(problem.flow_ids, routing.tolist(), strict=True))
        ),
        reason=found.decision.how,
    )


def decide(problem: Problem, options: Options, levels: int) -> Decision:
    """Paths, order and levels of a problem, on `levels` levels.  Raises OptionsError."""
    _check(options)
    worth = fairness.worth(problem.work, problem.weight, problem.slowdown, options.fairness)
    default = (options.paths, options.order, options.compression) == (DEFAULT, DEFAULT, "exact")
    bound = options.most_loss != math.inf
    if default and not bound and options.simulations and checked.fits(problem):
        return _simulated(problem, options, levels, worth)
    routing, moved, words = _paths(problem, options)
    times = communication_time(problem, routing)
    met = pairs(problem, routing)
    if options.order == DEFAULT:
        rank, how = methods.by_losses(problem, routing, worth, met)
        words.append(how)
    else:
        rank = methods.ORDERS[options.order](problem, routing)
        words.append(f"order: {options.order}")
    if bound:
        jobs = methods.alone(problem, routing)
        rank = fairness.bounded(rank, orders.losses(jobs, met), options.most_loss)
        words.append(f"no job to lose more than {options.most_loss:.0%}")
    value = intensity(worth, times)
    if len(met.one) <= MOST_EDGES:
        contention = graph(met, rank, value)
    else:
        contention = nearest(problem, routing, rank, value, MOST_EDGES)
    level = compression.METHODS[options.compression](contention, rank, levels)
    words.append(f"levels: {options.compression}")
    return Decision(routing, rank, level, "; ".join(words), moved, met)


def _simulated(problem: Problem, options: Options, levels: int, worth: Floats) -> Decision:
    """Few jobs with few paths: the best candidates, simulated."""
    small = Small(problem)
    judge = checked.oracle(small, worth)
    found = checked.search(small, judge, worth, levels, options.simulations)
    how = f"paths, order and levels: the best of {found.simulated} simulated schedules"
    moved = (Moved(found.moved, f"{found.gain:.2%} of all work"),) if found.moved else ()
    return Decision(found.routing, found.rank, found.level, how, moved)


def _paths(problem: Problem, options: Options) -> tuple[Ints, tuple[Moved, ...], list[str]]:
    """Routing, moves, and how they came about."""
    if options.paths != DEFAULT or not (problem.flow_path >= 0).any():
        return methods.ROUTES[options.paths](problem), (), [f"paths: {options.paths}"]
    next_one = disturbance.replan(problem)
    moved = tuple(Moved((move.flow,), f"{move.gain:.4g} FLOP/s") for move in next_one.moves)
    stay = problem.flow_count - len(next_one.placed) - len(moved)
    words = f"paths: {stay} flows stay, {len(moved)} move for a gain"
    if len(next_one.placed):
        words += f", {len(next_one.placed)} are placed"
    return next_one.routing, moved, [words]


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


def _reason(value: float, seconds: float, others: int, blind: bool, shift: str) -> str:
    if blind:
        return "no usable path is known for its traffic: best effort"
    if not seconds:
        return "sends nothing that is worth a priority"
    words = f"{value:.4g} FLOP per second of traffic, {seconds:.4g} s of it in an iteration"
    words += f"; shares links with {_count(others)}" if others else "; shares no link"
    return f"{words}; {shift}" if shift else words


def _count(jobs: int) -> str:
    return "1 job" if jobs == 1 else f"{jobs} jobs"
