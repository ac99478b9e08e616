"""Small problems: the best candidates of the pairwise model, checked by simulation.

Paths and order are chosen together, over all routings; then levels.  The simulation is of what
the view says: phases, overlap, several links.  Work is bounded by a number of simulated
schedules, never by a clock, so that every host finds the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations

import numpy as np

from hostcc.schedule import kcut
from hostcc.schedule.components import Component, Layout, Small
from hostcc.schedule.fluid import Cycle
from hostcc.schedule.graph import Contention
from hostcc.schedule.intensity import communication_time, intensity
from hostcc.schedule.oracle import Oracle
from hostcc.schedule.order import ENUMERATED, rates
from hostcc.schedule.pairloss import Alone, slowdown
from hostcc.schedule.paths.disturbance import WORTHWHILE
from hostcc.schedule.problem import TINY_S, Floats, Ints, Problem

MOST_ROUTINGS = 1024
ORDERS = 8
"""Per component, the best of the model; more where the budget is for few components."""
MARGIN, SPARE_MARGIN = 0.01, 0.02
"""Simulated gain over the maximum cut (a fraction) that counts: where jobs have to share levels,
and where there is one for each."""
KEPT = 3
"""Orders per component that are tried with fewer levels."""
WINDOW = (5.0, 30.0)
"""Simulated, in iterations of the longest job."""
MOST_ITERATIONS = 64
"""Of the shortest job in one of the longest: more would take long to simulate."""


@dataclass(frozen=True)
class CheckResult:
    """What was found."""

    routing: Ints
    """(F,) path indices."""
    rank: Ints
    """(J,)"""
    level: Ints
    """(J,) of `levels`, 0 the highest."""
    simulated: int
    moved: tuple[int, ...] = ()
    """Flows that leave the path that they are on."""
    gain: float = 0.0
    """What these gain together, as a fraction of what staying is worth."""


def fits(problem: Problem) -> bool:
    """Whether a problem is small enough."""
    if not 0 < problem.job_count <= ENUMERATED:
        return False
    if (np.maximum(problem.compute, problem.comm_start) <= TINY_S).any():
        return False
    period = _alone(problem).period
    period = period[np.isfinite(period)]
    if len(period) and period.max() > MOST_ITERATIONS * period.min():
        return False
    return Small(problem).routings <= MOST_ROUTINGS


def oracle(small: Small, worth: Floats, window: tuple[float, float] = WINDOW) -> Oracle:
    """The simulation of a problem from the phases that the view gives, 0 where it gives none;
    `worth` (J,) counts an iteration."""
    problem = small.problem
    alone = _alone(problem)
    longest = float(alone.period.max(initial=0.0)) or 1.0
    phase = np.nan_to_num(problem.phase)
    cycle = Cycle(
        problem.compute, problem.comm_start, -np.mod(phase, np.maximum(alone.period, 1e-9))
    )
    per_second = worth / np.maximum(problem.compute, 1e-9)
    return Oracle(small, cycle, per_second, (window[0] * longest, window[1] * longest))


def search(
    small: Small,
    judge: Oracle,
    worth: Floats,
    levels: int | None,
    budget: int,
    layouts: Sequence[Layout] | None = None,
) -> CheckResult:
    """Paths (of `layouts`, all when None), order and levels with about `budget` simulations.

    `levels` None: each job has one of its own, by its rank.  A flow leaves the path that it is
    on only when that gains more than WORTHWHILE of what its own job is worth.
    """
    layouts = list(small.layouts()) if layouts is None else layouts
    components = list(dict.fromkeys(part for layout in layouts for part in layout.components))
    keep = max(ORDERS, budget // max(1, len(components)))
    orders = model(small, components, worth, keep)
    wanted = _wanted(small.problem, layouts, orders, budget)
    judge.learn(list(wanted.items()))
    best = {part: _sorted(judge, part, ranks) for part, ranks in wanted.items()}
    chosen, gain = _chosen(small.problem, judge, layouts, best, worth)
    rank, level = np.zeros(len(worth), np.int64), np.zeros(len(worth), np.int64)
    place = []
    if levels is None:
        decided = [(best[part][0], best[part][0]) for part in chosen.components]
    else:
        decided = compress(judge, {part: best[part][:KEPT] for part in chosen.components}, levels)
    for part, (order, fitted) in zip(chosen.components, decided, strict=True):
        for member, own, its in zip(part.members, order, fitted, strict=True):
            level[member] = its
            place.append((its, own, member))
    for index, (_, _, member) in enumerate(sorted(place)):
        rank[member] = index
    routing = np.array(chosen.routing, np.int64)
    return CheckResult(routing, rank, level, judge.simulated, chosen.moved, gain)


def _wanted(
    problem: Problem,
    layouts: Sequence[Layout],
    orders: dict[Component, tuple[Ints, Floats]],
    budget: int,
) -> dict[Component, Ints]:
    """Components of the layouts that the model likes best, with the orders to simulate."""
    score = [sum(orders[part][1][0] for part in layout.components) for layout in layouts]
    # First of all those where nothing moves: what a move gains is measured against them.
    moves = np.array([len(layout.moved) > 0 for layout in layouts])
    if (problem.flow_path < 0).all():
        moves[:] = False
    wanted: dict[Component, Ints] = {}
    simulated = 0
    for index in np.lexsort((-np.array(score), moves)).tolist():
        fresh = [part for part in layouts[index].components if part not in wanted]
        simulated += sum(len(orders[part][0]) for part in fresh)
        if wanted and simulated > budget:
            break
        wanted |= {part: orders[part][0] for part in fresh}
    return wanted


def _chosen(
    problem: Problem,
    judge: Oracle,
    layouts: Sequence[Layout],
    best: dict[Component, list[list[int]]],
    worth: Floats,
) -> tuple[Layout, float]:
    """The best of the layouts that were simulated, and what its moves gain (a fraction)."""
    toll = _tolls(problem, worth)
    known = [layout for layout in layouts if all(part in best for part in layout.components)]
    value, chosen, still = -np.inf, known[0], 0.0
    for layout in known:
        full = sum(judge.value(part, best[part][0]) for part in layout.components)
        here = full - sum(toll[flow] for flow in layout.moved)
        if not layout.moved:
            still = max(still, full)
        if here > value + 1e-9 * full:
            value, chosen = here, layout
    if not chosen.moved or still <= 0:
        return chosen, 0.0
    return chosen, (value + sum(toll[flow] for flow in chosen.moved)) / still - 1


def _tolls(problem: Problem, worth: Floats) -> list[float]:
    """(F,) worth per second that a move of each flow has to gain."""
    each = WORTHWHILE * worth / np.maximum(_alone(problem).period, 1e-9)
    tolls: list[float] = each[problem.flow_job].tolist()
    return tolls


def compress(
    judge: Oracle, ranks: Mapping[Component, Sequence[list[int]]], levels: int
) -> list[tuple[list[int], list[int]]]:
    """For each component an order of its `ranks` and its levels, at most `levels`, that never
    fall along the order.

    The maximum cut of the first order, unless something else does better in the simulation by
    more than a margin: what wins by less may win by an error of measurement alone.
    """
    starts = {part: _cut(judge, part, own[0], levels) for part, own in ranks.items()}
    options = {
        part: [(rank, fitted) for rank in own for fitted in _steps(rank, levels)]
        for part, own in ranks.items()
    }
    judge.learn(
        [
            (part, np.array([starts[part], *(fitted for _, fitted in own)], np.int64))
            for part, own in options.items()
        ]
    )
    return [
        _compressed(judge, part, (ranks[part][0], starts[part]), own, levels)
        for part, own in options.items()
    ]


def _compressed(
    judge: Oracle,
    part: Component,
    start: tuple[list[int], list[int]],
    options: Sequence[tuple[list[int], list[int]]],
    levels: int,
) -> tuple[list[int], list[int]]:
    """`start`, or what of (order, levels) does better by more than the margin."""
    values = [judge.value(part, fitted) for _, fitted in options]
    top = max(values)
    margin = MARGIN if len(start[0]) > levels else SPARE_MARGIN
    if top <= judge.value(part, start[1]) * (1 + margin):
        return start
    # Of those as good, the first with the fewest levels: what is not needed stays free.
    equal = [one for one, value in zip(options, values, strict=True) if value >= top * (1 - 1e-9)]
    return min(equal, key=lambda one: max(one[1]))


def _cut(judge: Oracle, part: Component, rank: Sequence[int], levels: int) -> list[int]:
    """The maximum cut of an order's contention graph, edges worth the intensity."""
    members = list(part.members)
    alone = _alone(judge.small.problem)
    value = intensity(judge.worth[members] * alone.compute[members], alone.comm[members])
    pairs = [(a, b) if rank[a] < rank[b] else (b, a) for a, b in sorted(judge.small.pairs(part))]
    first, second = np.array(pairs, np.int64).reshape(-1, 2).T
    found: list[int] = kcut.exact(
        Contention.of(len(members), first, second, value[first]), levels
    ).tolist()
    return found


def _steps(rank: Sequence[int], levels: int) -> list[list[int]]:
    """All ways to cut an order into at most `levels` blocks."""
    count = len(rank)
    found = []
    for blocks in range(1, min(levels, count) + 1):
        for cuts in combinations(range(1, count), blocks - 1):
            found.append([sum(own >= cut for cut in cuts) for own in rank])  # noqa: PERF401
    return found


def model(
    small: Small, components: Sequence[Component], worth: Floats, keep: int
) -> dict[Component, tuple[Ints, Floats]]:
    """For each component its best orders by the pairwise model (N, members) as ranks, and what
    they are worth (N,), best first."""
    problem = small.problem
    alone = _alone(problem)
    per_second = worth / np.maximum(alone.period, 1e-9)
    met = [_met(small, part) for part in components]
    flat = np.array([pair for pairs in met for pair in pairs]).reshape(-1, 4)
    upper, lower = flat[:, 0].astype(np.int64), flat[:, 1].astype(np.int64)
    loss = slowdown(alone, upper, lower, flat[:, 2], flat[:, 3])
    found = {}
    at = 0
    for part, pairs in zip(components, met, strict=True):
        count = len(part.members)
        place = {job: index for index, job in enumerate(part.members)}
        table = np.zeros((count, count))
        for pair in pairs:
            table[place[int(pair[0])], place[int(pair[1])]] = loss[at]
            at += 1
        ranks = small.orders(part)
        speed = rates(table, np.argsort(ranks, axis=1))
        value = (speed * per_second[list(part.members)]).sum(axis=-1)
        top = np.argsort(-value, kind="stable")[:keep]
        found[part] = ranks[top], value[top]
    return found


def _met(small: Small, part: Component) -> list[tuple[float, float, float, float]]:
    """(upper, lower, their seconds on the link) for both ways round of each pair that meets."""
    most: dict[tuple[int, int], tuple[float, float]] = {}
    for capacity, flows in part.sharing:
        load: dict[int, float] = {}
        for flow in flows:
            job = small.flow_job[flow]
            load[job] = load.get(job, 0.0) + small.flow_bytes[flow] / capacity
        for (one, here), (other, there) in permutations(load.items(), 2):
            had = most.get((one, other), (0.0, 0.0))
            most[one, other] = max(had[0], here), max(had[1], there)
    return [(*pair, *seconds) for pair, seconds in sorted(most.items())]


def _sorted(judge: Oracle, part: Component, ranks: Ints) -> list[list[int]]:
    """Orders, the best by simulation first; of equals, the model's first choice."""
    listed: list[list[int]] = ranks.tolist()
    return sorted(listed, key=lambda rank: -judge.value(part, rank))


def _alone(problem: Problem) -> Alone:
    """Jobs by themselves, each flow on the first of its paths: a first idea of t."""
    routing = problem.table_start[problem.flow_table]
    return Alone(problem.compute, problem.comm_start, communication_time(problem, routing))
