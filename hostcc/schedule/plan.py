"""Makes a Plan of a ClusterView: pure, deterministic, independent of the order of the view's parts.

Flows whose paths are known stay while these are no worse than those of others would be
(paths/replanning.py). On busy links jobs have Crux's order unless another one is predicted to serve
more (methods.py).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from hostcc.model import ClusterView, Plan
from hostcc.schedule import (
    approximate_cut,
    baseline_orders,
    compression,
    coupling,
    fairness,
    kcut,
    methods,
    parameters,
    simulated_choice,
    simulated_search,
)
from hostcc.schedule import order as orders
from hostcc.schedule.components import SmallProblem
from hostcc.schedule.contention_graph import ContentionGraph
from hostcc.schedule.coupling import Component
from hostcc.schedule.decision_words import counts, of_all_work
from hostcc.schedule.errors import OptionsError
from hostcc.schedule.intensity import Crossings, crossings, intensity
from hostcc.schedule.job_pairs import Pairs, graph, nearest, pairs, pairs_on_links
from hostcc.schedule.known_components import KnownComponents
from hostcc.schedule.paths import crux, free_paths, link_balance, replanning
from hostcc.schedule.plan_writer import write_plan
from hostcc.schedule.problem import Floats, Ints, ParsedView, Problem, read
from hostcc.schedule.reuse import IntermediateResults, ReusedWork
from hostcc.schedule.shifts import Shifts, shifts

DEFAULT_METHOD = "hostcc"
MAX_EXACT_CUT_PAIRS = 40_000
"""Pairs up to which the maximum cut is computed (kcut.py); beyond, approximate_cut.py. The named
alternatives then get only pairs next to each other in rank."""

MAX_WORDINGS = 3
"""Ways to plan that a plan of several components names."""


@dataclass(frozen=True)
class Options:
    """Scheduler options that the operator sets, the same on every host."""

    levels: int = 8
    """Priority levels of the network, 0 the highest."""
    reserved: tuple[int, ...] = ()
    """Levels that jobs must not use."""
    paths: str = DEFAULT_METHOD
    """A key of methods.ROUTES."""
    order: str = DEFAULT_METHOD
    """A key of methods.ORDERS."""
    compression: str = "exact"
    """A key of compression.METHODS."""
    fairness: float = 0.0
    """Exponent of the recent slow-down in a job's worth; 0: throughput alone counts."""
    most_loss: float = math.inf
    """Predicted fraction of its speed that no job may lose; inf: no bound."""
    simulations: int = 400
    """Schedules simulated to plan small views; 0: never."""


@dataclass(frozen=True)
class MovedFlows:
    """Flows that leave a path on which they could have stayed."""

    flows: tuple[int, ...]
    effect: str
    """What that gains, in words."""


@dataclass(frozen=True)
class Decision:
    """A schedule as arrays."""

    routing: Ints
    """(F,)"""
    rank: Ints
    """(J,)"""
    level: Ints
    """(J,) index into the usable levels."""
    how: str
    """How it was found, in words."""
    moved: tuple[MovedFlows, ...] = ()
    on_free_paths: tuple[int, ...] = ()
    """Flows that were finally given a path that nobody else uses."""
    crossed: Crossings | None = None
    """What jobs load; None: it was not worked out, or is not kept."""
    work: IntermediateResults | None = None
    """Intermediate results, for the next plan to reuse."""


@dataclass(frozen=True)
class Schedule:
    """Everything that a plan says of a problem, as arrays."""

    problem: Problem
    decision: Decision
    level: Ints
    """(J,) level of the network."""
    times: Floats
    """(J,) t, seconds."""
    priority: Floats
    """(J,)"""
    contenders: Ints
    """(J,) number of jobs that each shares links with."""
    shifts: Shifts
    weight: Floats
    """(J,) weight of the congestion control."""

    @property
    def met(self) -> Pairs:
        """The pairs of jobs that meet; of thousands of jobs they are found anew each time, because
        they are many and seldom asked for."""
        work = self.decision.work
        if work is None or not work.every_pair:
            return pairs(self.problem, self.decision.routing)
        return work.met


Known = KnownComponents[Schedule]


@dataclass(frozen=True)
class Solution(Schedule):
    """A view's schedule, with what speeds up that of the next view."""

    reading: ParsedView
    options: Options
    components: tuple[Schedule, ...] = ()
    """Of each component; empty: they were not planned by themselves."""

    @cached_property
    def component_of(self) -> Mapping[str, int]:
        """Job -> its component."""
        each = enumerate(self.components)
        return {job: at for at, one in each for job in one.problem.job_ids}


def plan(view: ClusterView, options: Options | None = None) -> Plan:
    """Return the plan of a view. Raises ViewError and OptionsError with one line."""
    return write_plan(view.digest, solve(view, options))


def solve(
    view: ClusterView, options: Options | None = None, before: Solution | None = None
) -> Solution:
    """Solve a view as one component, without writing the plan.

    `before`: the solution of any other view; what is common is reused, with the same result. Raises
    ViewError and OptionsError.
    """
    options = Options() if options is None else options
    reading = read(view, None if before is None else before.reading)
    found = _schedule(reading.problem, options, None if before is None else before.decision.work)
    return Solution(**_fields(found), reading=reading, options=options)


def solve_for_agents(
    view: ClusterView, options: Options, before: Solution | None = None, known: Known | None = None
) -> Solution:
    """Solve a view as agents follow it: component by component (coupling.py), and flows share
    links only if they have to (paths/free_paths.py).

    `before` and `known` (with the same options): as for solve(). Raises ViewError, OptionsError.
    """
    _check(options)
    reading = read(view, None if before is None else before.reading)
    parts = coupling.components(reading.problem)
    if before is not None and before.options != options:
        before = None
    found = tuple(_for_agents(part.problem, options, before, known) for part in parts)
    if len(parts) == 1 and parts[0].problem is reading.problem:
        whole = found[0]
    else:
        whole = _joined(reading.problem, options, parts, found)
    return Solution(**_fields(whole), reading=reading, options=options, components=found)


def _fields(found: Schedule) -> dict[str, Any]:
    return {field.name: getattr(found, field.name) for field in fields(Schedule)}


def _schedule(
    problem: Problem,
    options: Options,
    past: IntermediateResults | None,
    *,
    apart: bool = False,
) -> Schedule:
    usable = compression.usable_levels(options.levels, options.reserved)
    decision = decide(problem, options, len(usable), past, apart=apart)
    work = decision.work
    found = decision.crossed or crossings(problem, decision.routing)
    times = found.times(problem.job_count)
    level = usable[decision.level]
    # Contenders of these jobs are unknown: they get best effort.
    level[problem.blind] = usable[-1]
    met = pairs(problem, decision.routing) if work is None else work.met
    if work is not None:
        work = work.reduced()
    decision = replace(decision, crossed=None, work=work)
    contenders = np.bincount(met.one, minlength=problem.job_count)
    contenders += np.bincount(met.other, minlength=problem.job_count)
    return Schedule(
        problem,
        decision,
        level,
        times,
        _priority(problem, decision, times, options),
        contenders,
        shifts(problem, found),
        parameters.weights(level, problem.weight, contenders > 0),
    )


def _for_agents(
    problem: Problem, options: Options, before: Solution | None, known: Known | None
) -> Schedule:
    """Solve a component; `before` and `known` have the same options."""
    past = None if before is None else _nearest(problem, before)
    same = None if known is None else known.get(problem)
    if past is not None and coupling.equal(past.problem, problem):
        same = past
    if same is not None:
        return replace(same, problem=problem)
    work = None if past is None else past.decision.work
    found = _schedule(problem, options, work, apart=True)
    return found if known is None else known.add(found)


def _nearest(problem: Problem, before: Solution) -> Schedule | None:
    """Return the component of `before` with the most jobs of this one."""
    known = map(before.component_of.get, problem.job_ids)
    shared = Counter(at for at in known if at is not None)
    return before.components[max(shared, key=lambda at: (shared[at], -at))] if shared else None


def _joined(
    problem: Problem, options: Options, parts: Sequence[Component], found: Sequence[Schedule]
) -> Schedule:
    """Return the schedule of a problem from those of its components.

    A job without flows has rank 0, the highest level and its owner's weight; the lowest level, if
    its paths are not known.
    """
    usable = compression.usable_levels(options.levels, options.reserved)
    jobs = problem.job_count
    routing = np.zeros(problem.flow_count, np.int64)
    rank, place, contenders = (np.zeros(jobs, np.int64) for _ in range(3))
    level = np.where(problem.blind, usable[-1], usable[0])
    times, priority, seconds = np.zeros(jobs), np.zeros(jobs), np.zeros(jobs)
    weight = parameters.weights(level, problem.weight, np.zeros(jobs, np.bool_))
    reason = [""] * jobs
    moved: list[MovedFlows] = []
    free: list[int] = []
    for part, one in zip(parts, found, strict=True):
        at, decision = part.jobs, one.decision
        routing[part.flows] = part.paths[decision.routing]
        rank[at], place[at], level[at] = decision.rank, decision.level, one.level
        times[at], priority[at], weight[at] = one.times, one.priority, one.weight
        seconds[at], contenders[at] = one.shifts.seconds, one.contenders
        for job, words in zip(at.tolist(), one.shifts.reason, strict=True):
            reason[job] = words
        moved += [
            MovedFlows(tuple(part.flows[list(some.flows)].tolist()), some.effect)
            for some in decision.moved
        ]
        free += part.flows[list(decision.on_free_paths)].tolist()
    decision = Decision(routing, rank, place, _how(found), tuple(moved), tuple(free))
    turned = Shifts(seconds, tuple(reason))
    return Schedule(problem, decision, level, times, priority, contenders, turned, weight)


def _how(found: Sequence[Schedule]) -> str:
    """Say how components were planned, the most frequent words first."""
    words = Counter(one.decision.how for one in found).most_common(MAX_WORDINGS)
    if len(found) < 2:
        return words[0][0] if words else "no job has a flow with a usable path"
    return " / ".join(f"{count} of {len(found)} components: {how}" for how, count in words)


def decide(
    problem: Problem,
    options: Options,
    levels: int,
    past: IntermediateResults | None = None,
    *,
    apart: bool = False,
) -> Decision:
    """Choose paths, order and levels of a problem, on `levels` levels.

    `past`: intermediate results of another problem, to reuse what is the same. `apart`: by the
    default method, flows share links only if they have to (paths/free_paths.py). Raises
    OptionsError.
    """
    _check(options)
    worth = fairness.worth(problem.work, problem.weight, problem.slowdown, options.fairness)
    default = (options.paths, options.order, options.compression) == (
        DEFAULT_METHOD,
        DEFAULT_METHOD,
        "exact",
    )
    simulated = None
    if default and options.most_loss == math.inf and options.simulations:
        if simulated_search.fits(problem, options.simulations):
            simulated = _simulated(problem, options, levels, worth)
        elif simulated_choice.fits(problem):
            simulated = _simulated_choice(problem, options, levels, worth, past)
    if simulated is None:
        routing, moved, words = _paths(problem, options)
    else:
        routing, moved, words = simulated.routing, simulated.moved, [simulated.how]
        past = simulated.work
    free = {}
    if apart and options.paths == DEFAULT_METHOD:
        free = free_paths.move_to_free_paths(problem, routing)
    if free:
        routing = routing.copy()
        routing[list(free)] = list(free.values())
        words.append(f"{len(free)} flows get paths of their own")
        leaving = [flow for flow in free if problem.flow_path[flow] >= 0]
        moved = tuple(one for one in moved if not free.keys() & set(one.flows))
        moved += tuple(MovedFlows((flow,), "a path of its own") for flow in leaving)
    elif simulated is not None:
        return simulated
    found = _on_routing(problem, options, levels, worth, routing, words, past)
    return replace(found, moved=moved, on_free_paths=tuple(free))


def _on_routing(
    problem: Problem,
    options: Options,
    levels: int,
    worth: Floats,
    routing: Ints,
    words: list[str],
    past: IntermediateResults | None,
) -> Decision:
    """Choose order and levels on a routing (F,); `words` say how that was found."""
    bound = options.most_loss != math.inf
    found = crossings(problem, routing)
    waiting = found.contended(problem.job_count)
    carried = None if past is None else ReusedWork(past, problem, found, waiting)
    followed = None
    if carried is None:
        met = pairs_on_links(waiting.job, waiting.link, waiting.seconds, problem.job_count)
    else:
        met, source = carried.pairs()
        followed = carried.followed(source)
    if options.order == DEFAULT_METHOD:
        rank, how, lost = methods.by_losses(problem, found, worth, met, followed)
        words.append(how)
    else:
        rank, lost = methods.ORDERS[options.order](problem, routing), None
        words.append(f"order: {options.order}")
    if bound:
        lost = (
            orders.losses(methods.isolated_times(problem, routing), met) if lost is None else lost
        )
        rank = fairness.limit_loss(rank, lost, options.most_loss)
        words.append(f"no job to lose more than {options.most_loss:.0%}")
    followed = None if lost is None else lost.followed
    del lost  # megabytes
    value = intensity(worth, found.times(problem.job_count))
    contention, cut = None, None
    if options.compression == "exact" and len(met.one) > MAX_EXACT_CUT_PAIRS:
        level = approximate_cut.approximate_levels(waiting, met, rank, value, levels)
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
    times = found.times(problem.job_count)
    work = IntermediateResults(problem, times, waiting, met, followed, contention, cut)
    return Decision(routing, rank, level, "; ".join(words), crossed=found, work=work)


def _simulated(problem: Problem, options: Options, levels: int, worth: Floats) -> Decision:
    """Decide few jobs with few paths by simulating the best candidates."""
    small = SmallProblem(problem)
    judge = simulated_search.make_oracle(small, worth)
    least = small.layout(tuple(crux.crux(problem).tolist()))
    found = simulated_search.search(small, judge, worth, levels, options.simulations, least=least)
    how = f"paths, order and levels: the best of {found.simulated} simulated schedules"
    moved = (MovedFlows(found.moved, of_all_work(found.gain)),) if found.moved else ()
    return Decision(found.routing, found.rank, found.level, how, moved)


def _simulated_choice(
    problem: Problem,
    options: Options,
    levels: int,
    worth: Floats,
    past: IntermediateResults | None,
) -> Decision:
    """Decide by simulating those candidates that may be taken, with their order and levels."""
    found = replanning.candidates(problem, near=True)
    score = replanning.scores(found.predicted)
    some = replanning.eligible(score, found.load, replanning.SIMULATED)
    # Of the same routings, one is simulated.
    names = [routing.tobytes() for routing in found.routings]
    made = {
        names[at]: _on_routing(problem, options, levels, worth, found.routings[at], [], past)
        for at in some.tolist()
    }
    words = ""
    if len(made) > 1:
        schedules = [(one.routing, one.level) for one in made.values()]
        work = dict(zip(made, simulated_choice.values(problem, worth, schedules), strict=True))
        simulated = replanning.scores(np.array([work.get(name, np.nan) for name in names]))
        score[some] = np.minimum(score, simulated)[some]
        words = f", the best of {len(made)} that were simulated"
    chosen = replanning.choose(score, found, replanning.SIMULATED)
    gain = float(score[chosen] / score[0] - 1) if score[0] > 0 else 0.0
    decision = made[names[chosen]]
    moves = tuple(
        np.flatnonzero((problem.flow_path >= 0) & (decision.routing != problem.flow_path)).tolist()
    )
    words = f"{counts(problem, len(moves))}{words}; {decision.how}"
    moved = (MovedFlows(moves, of_all_work(gain)),) if moves else ()
    return replace(decision, how=words, moved=moved)


def _paths(problem: Problem, options: Options) -> tuple[Ints, tuple[MovedFlows, ...], list[str]]:
    """Return the routing, its moves, and words on how it was found."""
    if options.paths in link_balance.METHODS:
        balanced = link_balance.METHODS[options.paths](problem)
        moves = tuple(MovedFlows(one.flows, link_balance.effect(one)) for one in balanced.moves)
        return balanced.routing, moves, [link_balance.words(options.paths, balanced)]
    if options.paths != DEFAULT_METHOD or not (problem.flow_path >= 0).any():
        return methods.ROUTES[options.paths](problem), (), [f"paths: {options.paths}"]
    next_one = replanning.replan(problem)
    moved = tuple(
        MovedFlows(move.flows, f"predicted gain {move.gain:.4g} FLOP/s") for move in next_one.moves
    )
    leaving = sum(len(move.flows) for move in moved)
    return next_one.routing, moved, [counts(problem, leaving)]


def _contention(waiting: Crossings, met: Pairs, rank: Ints, value: Floats) -> ContentionGraph:
    if len(met.one) <= MAX_EXACT_CUT_PAIRS:
        return graph(met, rank, value)
    return nearest(waiting, rank, value, MAX_EXACT_CUT_PAIRS)


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
        return baseline_orders.crux_priority(problem, decision.routing)
    return intensity(problem.work, times)
