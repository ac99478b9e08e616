"""ClusterView -> Plan: pure, deterministic, whatever the order of the view's parts.

A flow whose path is known stays on it unless a gain is stated (paths/disturbance.py).  Where
links are offered far more than they carry the pairwise model is not asked: Crux's paths, or
those that the flows are on, and the order by intensity stay.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from hostcc.model import ClusterView, Plan
from hostcc.schedule import (
    baselines_order,
    checked,
    compression,
    fairness,
    fastcut,
    kcut,
    methods,
    parameters,
)
from hostcc.schedule import order as orders
from hostcc.schedule.components import Small
from hostcc.schedule.contention import Pairs, graph, nearest, on_links, pairs
from hostcc.schedule.errors import OptionsError
from hostcc.schedule.graph import Contention
from hostcc.schedule.intensity import Crossings, crossings, intensity
from hostcc.schedule.paths import disturbance
from hostcc.schedule.paths.apart import apart
from hostcc.schedule.problem import Floats, Ints, Problem, Reading, read
from hostcc.schedule.reuse import ReusedWork, Work
from hostcc.schedule.shifts import Shifts, shifts
from hostcc.schedule.writing import written

DEFAULT = "hostcc"
MOST_EDGES = 40_000
"""Pairs up to which the maximum cut is found (kcut.py); of more one near it (fastcut.py).  The
named alternatives get those next to each other in rank on their links."""


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
class MovedFlows:
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
    moved: tuple[MovedFlows, ...] = ()
    apart: tuple[int, ...] = ()
    """Flows that were last given a path that nobody else is on."""
    work: Work | None = None
    """What was found on the way."""


@dataclass(frozen=True)
class Solution:
    """Everything that a plan says, in arrays."""

    reading: Reading
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

    @property
    def problem(self) -> Problem:
        """What it solves."""
        return self.reading.problem

    @cached_property
    def contenders(self) -> Ints:
        """(J,) with how many jobs each shares links."""
        count = np.bincount(self.met.one, minlength=self.problem.job_count)
        return count + np.bincount(self.met.other, minlength=self.problem.job_count)


def plan(view: ClusterView, options: Options | None = None) -> Plan:
    """The plan of a view.  Raises ViewError and OptionsError, in one line."""
    return written(view.digest, solve(view, options))


def solve(
    view: ClusterView, options: Options | None = None, before: Solution | None = None
) -> Solution:
    """What plan() writes down.  `before`: the solution of any other view; what the two have in
    common is taken from it, and the result is the same.  Raises ViewError and OptionsError."""
    options = Options() if options is None else options
    reading = read(view, None if before is None else before.reading)
    problem = reading.problem
    usable = compression.usable_levels(options.levels, options.reserved)
    past = None if before is None else before.decision.work
    decision = decide(problem, options, len(usable), past)
    work = decision.work
    found = crossings(problem, decision.routing) if work is None else work.crossings
    times = found.times(problem.job_count)
    level = usable[decision.level]
    # What a job contends with is unknown: doubt means best effort.
    level[problem.blind] = usable[-1]
    met = pairs(problem, decision.routing) if work is None else work.met
    competing = np.zeros(problem.job_count, np.bool_)
    competing[met.one] = competing[met.other] = True
    return Solution(
        reading,
        options,
        decision,
        level,
        times,
        _priority(problem, decision, times, options),
        met,
        shifts(problem, found),
        parameters.weights(level, problem.weight, competing),
    )


def solved(view: ClusterView, options: Options, before: Solution | None = None) -> Solution:
    """What agents follow: the schedule of a view where flows share links only if they have to
    (paths/apart.py).  `before`: as for solve().  Raises ViewError and OptionsError."""
    found = solve(view, options, before)
    if options.paths != DEFAULT:
        return found
    problem, first = found.problem, found.decision
    moved = apart(problem, first.routing)
    if not moved:
        return found
    routing = first.routing.copy()
    routing[list(moved)] = list(moved.values())
    paths = dict(zip(problem.flow_ids, problem.path_ids.some(routing), strict=True))
    flows = tuple(
        flow if (path := paths.get(flow.id, flow.path)) == flow.path else replace(flow, path=path)
        for flow in view.flows
    )
    again = solve(replace(view, flows=flows), replace(options, paths="stay"), found)
    kept = [one for one in first.moved if not moved.keys() & set(one.flows)]
    leaving = [flow for flow in moved if problem.flow_path[flow] >= 0]
    decision = replace(
        again.decision,
        how=f"{first.how}; {len(moved)} flows get paths of their own; {again.decision.how}",
        moved=(*kept, *(MovedFlows((flow,), "a path of its own") for flow in leaving)),
        apart=tuple(moved),
    )
    return replace(again, reading=found.reading, options=options, decision=decision)


def decide(problem: Problem, options: Options, levels: int, past: Work | None = None) -> Decision:
    """Paths, order and levels of a problem, on `levels` levels; `past`: of another problem, to
    take over what is the same.  Raises OptionsError."""
    _check(options)
    worth = fairness.worth(problem.work, problem.weight, problem.slowdown, options.fairness)
    default = (options.paths, options.order, options.compression) == (DEFAULT, DEFAULT, "exact")
    bound = options.most_loss != math.inf
    if default and not bound and options.simulations and checked.fits(problem):
        return _simulated(problem, options, levels, worth)
    routing, moved, words = _paths(problem, options)
    found = crossings(problem, routing)
    waiting = found.waiting(problem.job_count)
    carried = None if past is None else ReusedWork(past, problem, found, waiting)
    followed = None
    if carried is None:
        met = on_links(waiting.job, waiting.link, waiting.seconds, problem.job_count)
    else:
        met, source = carried.pairs()
        followed = carried.followed(source)
    if options.order == DEFAULT:
        ordered = methods.by_losses(problem, found, worth, met, followed)
        rank, lost = ordered.rank, ordered.losses
        words.append(ordered.how)
    else:
        rank, lost = methods.ORDERS[options.order](problem, routing), None
        words.append(f"order: {options.order}")
    if bound:
        lost = orders.losses(methods.alone(problem, routing), met) if lost is None else lost
        rank = fairness.bounded(rank, lost, options.most_loss)
        words.append(f"no job to lose more than {options.most_loss:.0%}")
    value = intensity(worth, found.times(problem.job_count))
    contention, cut = None, None
    if options.compression == "exact" and len(met.one) > MOST_EDGES:
        level = fastcut.near(waiting, met, rank, value, levels)
        words.append("levels: near the maximum cut")
    else:
        contention = _contention(waiting, met, rank, value)
        if options.compression == "exact":
            like = None if carried is None else carried.cut(contention)
            cut = kcut.cut(contention, levels, like)
            level = cut.level
        else:
            level = compression.METHODS[options.compression](contention, rank, levels)
        words.append(f"levels: {options.compression}")
    followed = None if lost is None else lost.followed
    work = Work(problem, found, waiting, met, followed, contention, cut)
    return Decision(routing, rank, level, "; ".join(words), moved, work=work)


def _simulated(problem: Problem, options: Options, levels: int, worth: Floats) -> Decision:
    """Few jobs with few paths: the best candidates, simulated."""
    small = Small(problem)
    judge = checked.oracle(small, worth)
    found = checked.search(small, judge, worth, levels, options.simulations)
    how = f"paths, order and levels: the best of {found.simulated} simulated schedules"
    moved = (MovedFlows(found.moved, f"{found.gain:.2%} of all work"),) if found.moved else ()
    return Decision(found.routing, found.rank, found.level, how, moved)


def _paths(problem: Problem, options: Options) -> tuple[Ints, tuple[MovedFlows, ...], list[str]]:
    """Routing, moves, and how they came about."""
    if options.paths != DEFAULT or not (problem.flow_path >= 0).any():
        return methods.ROUTES[options.paths](problem), (), [f"paths: {options.paths}"]
    next_one = disturbance.replan(problem)
    moved = tuple(MovedFlows((move.flow,), f"{move.gain:.4g} FLOP/s") for move in next_one.moves)
    stay = problem.flow_count - len(next_one.placed) - len(moved)
    words = f"paths: {stay} flows stay, {len(moved)} move for a gain"
    if len(next_one.placed):
        words += f", {len(next_one.placed)} are placed"
    return next_one.routing, moved, [words]


def _contention(waiting: Crossings, met: Pairs, rank: Ints, value: Floats) -> Contention:
    """The contention graph."""
    if len(met.one) <= MOST_EDGES:
        return graph(met, rank, value)
    return nearest(waiting, rank, value, MOST_EDGES)


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
