"""Plans small problems: simulates the candidates that the pairwise model likes best.

Paths and order are chosen together, over all routings, and then levels. The simulation follows the
view: phases, overlap, several links. The number of simulated schedules bounds the work, not a
clock, so every host finds the same plan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations

import numpy as np

from hostcc.schedule import kcut
from hostcc.schedule.components import Component, Layout, SmallProblem
from hostcc.schedule.contention_graph import ContentionGraph
from hostcc.schedule.fluid import Cycle
from hostcc.schedule.intensity import communication_time, intensity
from hostcc.schedule.oracle import Oracle
from hostcc.schedule.order import MAX_ENUMERATED_JOBS, rates
from hostcc.schedule.pair_loss import IsolatedTimes, slowdown
from hostcc.schedule.paths.replanning import MIN_GAIN_FRACTION
from hostcc.schedule.problem import TINY_S, Floats, Ints, Problem
from hostcc.schedule.simulation_rows import expected_events, quickest_paths

MAX_ROUTINGS = 1024
ORDERS_PER_COMPONENT = 8
"""Best orders of the model that are simulated, for each component; more if the budget allows."""
MIN_GAIN, MIN_GAIN_SPARE_LEVELS = 0.01, 0.02
"""Simulated gain over the maximum cut (a fraction) that is not taken for measurement error: where
jobs share levels, and where there is a level for each."""
ORDERS_TO_COMPRESS = 3
"""Orders of each component that are tried with fewer levels."""
WINDOW_ITERATIONS = (5.0, 30.0)
"""Simulated window (from, to), in iterations of the longest job."""
MAX_PERIOD_RATIO = 64
"""Largest ratio of two jobs' iteration times, or of one job's on two paths; above it a simulation
takes too long."""
MAX_FLOWS = 512
"""Flows up to which schedules are simulated."""
MAX_ENUMERATED_CROSSINGS = 1 << 18
"""Routings times links on the flows' paths up to which all routings are looked at."""
MAX_CELLS_PER_JOB = 160 << 20
"""Cells of arrays that are worked through to simulate, for each job, up to which that is done: some
0.5 s of a processor. So what a plan takes in all grows with its jobs, however they are grouped."""
ROUNDING = 1e-9
"""Relative difference below which two simulated values are the same."""
CELLS_OF_AN_EVENT = 1 << 13
"""What an event costs by itself, beside a cell for each two rows of one job, in each schedule."""


@dataclass(frozen=True)
class SearchResult:
    """The best schedule found."""

    routing: Ints
    """(F,) path indices."""
    rank: Ints
    """(J,)"""
    level: Ints
    """(J,) level from 0, the highest, to `levels` - 1."""
    simulated: int
    """Number of schedules simulated."""
    moved: tuple[int, ...] = ()
    """Flows that leave their present path."""
    gain: float = 0.0
    """Gain of all moves together, as a fraction of the value without them."""


def fits(problem: Problem, budget: int) -> bool:
    """Return whether a problem is small enough for this search with about `budget` simulations."""
    jobs = problem.job_count
    if not 0 < jobs <= MAX_ENUMERATED_JOBS or problem.flow_count > MAX_FLOWS:
        return False
    if (np.maximum(problem.compute, problem.comm_start) <= TINY_S).any():
        return False
    period = _isolated_times(problem).period
    shortest = np.minimum(period, _isolated_times(problem, quickest_paths(problem)).period)
    if period.max() > MAX_PERIOD_RATIO * shortest.min():
        return False
    routings = SmallProblem(problem).routings
    crossings = int(np.diff(problem.path_start)[problem.table_start[problem.flow_table]].sum())
    return (
        routings <= MAX_ROUTINGS
        and routings * crossings <= MAX_ENUMERATED_CROSSINGS
        and _cells(problem, budget, period, shortest) <= MAX_CELLS_PER_JOB * jobs
    )


def _cells(problem: Problem, budget: int, period: Floats, shortest: Floats) -> float:
    """Return how many cells are expected to be worked through to simulate `budget` schedules.

    `period`, `shortest` (J,): seconds of an iteration alone, on first and on quickest paths.
    """
    alone = np.diff(problem.table_start)[problem.flow_table] == 1
    # Flows of a job that are alike, on the only path, are one row.
    other = np.where(alone, -1, np.arange(problem.flow_count))
    flows = np.stack([problem.flow_job, problem.flow_table, problem.flow_bytes, other])
    rows = np.bincount(np.unique(flows, axis=1)[0].astype(np.int64), minlength=problem.job_count)
    events = expected_events(shortest, rows, WINDOW_ITERATIONS[1] * float(period.max()))
    return events * (CELLS_OF_AN_EVENT + budget * float((rows**2).sum()))


def make_oracle(
    small: SmallProblem, worth: Floats, window: tuple[float, float] = WINDOW_ITERATIONS
) -> Oracle:
    """Return a simulation of the problem that starts from the view's phases, or 0 where unknown.

    `worth` (J,) is the value of an iteration; `window` is in iterations of the longest job.
    """
    problem = small.problem
    isolated = _isolated_times(problem)
    longest = float(isolated.period.max(initial=0.0)) or 1.0
    phase = np.nan_to_num(problem.phase)
    cycle = Cycle(
        problem.compute, problem.comm_start, -np.mod(phase, np.maximum(isolated.period, 1e-9))
    )
    per_second = worth / np.maximum(problem.compute, 1e-9)
    return Oracle(small, cycle, per_second, (window[0] * longest, window[1] * longest))


def search(
    small: SmallProblem,
    oracle: Oracle,
    worth: Floats,
    levels: int | None,
    budget: int,
    layouts: Sequence[Layout] | None = None,
    least: Layout | None = None,
) -> SearchResult:
    """Choose paths (from `layouts`, or all), order and levels with about `budget` simulations.

    `levels` None: each job has a level of its own, by its rank. A flow leaves its present path only
    if that gains more than MIN_GAIN_FRACTION of its job's value, or if the routing would do less
    than that of `least`, one of the layouts.
    """
    layouts = list(small.layouts()) if layouts is None else layouts
    components = list(dict.fromkeys(part for layout in layouts for part in layout.components))
    keep = max(ORDERS_PER_COMPONENT, budget // max(1, len(components)))
    orders = model(small, components, worth, keep)
    wanted = _promising_orders(small.problem, layouts, orders, budget)
    if least is not None:
        wanted |= {part: orders[part][0] for part in least.components if part not in wanted}
    oracle.learn(list(wanted.items()))
    best = {part: _sorted(oracle, part, ranks) for part, ranks in wanted.items()}
    chosen, gain = _best_layout(small.problem, oracle, layouts, best, worth, least)
    rank, level = np.zeros(len(worth), np.int64), np.zeros(len(worth), np.int64)
    place = []
    if levels is None:
        decided = [(best[part][0], best[part][0]) for part in chosen.components]
    else:
        decided = compress(
            oracle, {part: best[part][:ORDERS_TO_COMPRESS] for part in chosen.components}, levels
        )
    for part, (order, fitted) in zip(chosen.components, decided, strict=True):
        for member, own, its in zip(part.members, order, fitted, strict=True):
            level[member] = its
            place.append((its, own, member))
    for index, (_, _, member) in enumerate(sorted(place)):
        rank[member] = index
    routing = np.array(chosen.routing, np.int64)
    return SearchResult(routing, rank, level, oracle.simulated, chosen.moved, gain)


def _promising_orders(
    problem: Problem,
    layouts: Sequence[Layout],
    orders: dict[Component, tuple[Ints, Floats]],
    budget: int,
) -> dict[Component, Ints]:
    """Return the orders to simulate, for the components that the model likes best."""
    score = [sum(orders[part][1][0] for part in layout.components) for layout in layouts]
    # Layouts without moves come first: the gain of a move is measured against them.
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


def _best_layout(
    problem: Problem,
    oracle: Oracle,
    layouts: Sequence[Layout],
    best: dict[Component, list[list[int]]],
    worth: Floats,
    least: Layout | None,
) -> tuple[Layout, float]:
    """Return the best simulated layout, and the gain of its moves (a fraction)."""

    def simulated(layout: Layout) -> float:
        return sum(oracle.value(part, best[part][0]) for part in layout.components)

    min_gain = _min_gains(problem, worth)
    known = [layout for layout in layouts if all(part in best for part in layout.components)]
    value, chosen, still = -np.inf, known[0], 0.0
    floor = 0.0 if least is None else simulated(least) * (1 - ROUNDING)
    for layout in known:
        full = simulated(layout)
        if not layout.moved:
            still = max(still, full)
        if full < floor:
            continue
        here = full - sum(min_gain[flow] for flow in layout.moved)
        if here > value + ROUNDING * full:
            value, chosen = here, layout
    if not chosen.moved or still <= 0:
        return chosen, 0.0
    return chosen, (value + sum(min_gain[flow] for flow in chosen.moved)) / still - 1


def _min_gains(problem: Problem, worth: Floats) -> list[float]:
    """Return (F,) the value per second that a move of each flow has to gain."""
    each = MIN_GAIN_FRACTION * worth / np.maximum(_isolated_times(problem).period, 1e-9)
    tolls: list[float] = each[problem.flow_job].tolist()
    return tolls


def compress(
    oracle: Oracle, ranks: Mapping[Component, Sequence[list[int]]], levels: int
) -> list[tuple[list[int], list[int]]]:
    """Return for each component one of its `ranks`, and at most `levels` levels that follow it.

    The maximum cut of the first order wins, unless another choice is better in the simulation by
    more than a margin: a smaller lead may be measurement error.
    """
    starts = {part: _cut(oracle, part, own[0], levels) for part, own in ranks.items()}
    options = {
        part: [(rank, fitted) for rank in own for fitted in _steps(rank, levels)]
        for part, own in ranks.items()
    }
    oracle.learn(
        [
            (part, np.array([starts[part], *(fitted for _, fitted in own)], np.int64))
            for part, own in options.items()
        ]
    )
    return [
        _compressed(oracle, part, (ranks[part][0], starts[part]), own, levels)
        for part, own in options.items()
    ]


def _compressed(
    oracle: Oracle,
    part: Component,
    start: tuple[list[int], list[int]],
    options: Sequence[tuple[list[int], list[int]]],
    levels: int,
) -> tuple[list[int], list[int]]:
    """Return `start`, or the choice of (order, levels) that beats it by more than the margin."""
    values = [oracle.value(part, fitted) for _, fitted in options]
    top = max(values)
    margin = MIN_GAIN if len(start[0]) > levels else MIN_GAIN_SPARE_LEVELS
    if top <= oracle.value(part, start[1]) * (1 + margin):
        return start
    # Of those as good, the first with the fewest levels: what is not needed stays free.
    equal = [
        one for one, value in zip(options, values, strict=True) if value >= top * (1 - ROUNDING)
    ]
    return min(equal, key=lambda one: max(one[1]))


def _cut(oracle: Oracle, part: Component, rank: Sequence[int], levels: int) -> list[int]:
    """Return the maximum cut of an order's contention graph, with intensities as edge weights."""
    members = list(part.members)
    isolated = _isolated_times(oracle.small.problem)
    value = intensity(oracle.worth[members] * isolated.compute[members], isolated.comm[members])
    pairs = [(a, b) if rank[a] < rank[b] else (b, a) for a, b in sorted(oracle.small.pairs(part))]
    first, second = np.array(pairs, np.int64).reshape(-1, 2).T
    found: list[int] = kcut.exact(
        ContentionGraph.of(len(members), first, second, value[first]), levels
    ).tolist()
    return found


def _steps(rank: Sequence[int], levels: int) -> list[list[int]]:
    """Return all ways to cut an order into at most `levels` blocks."""
    count = len(rank)
    found = []
    for blocks in range(1, min(levels, count) + 1):
        for cuts in combinations(range(1, count), blocks - 1):
            found.append([sum(own >= cut for cut in cuts) for own in rank])  # noqa: PERF401
    return found


def model(
    small: SmallProblem, components: Sequence[Component], worth: Floats, keep: int
) -> dict[Component, tuple[Ints, Floats]]:
    """Return the `keep` best orders by the pairwise model, for each component.

    As ranks (N, members) with their values (N,), best first.
    """
    problem = small.problem
    isolated = _isolated_times(problem)
    per_second = worth / np.maximum(isolated.period, 1e-9)
    met = [_meeting_seconds(small, part) for part in components]
    flat = np.array([pair for pairs in met for pair in pairs]).reshape(-1, 4)
    upper, lower = flat[:, 0].astype(np.int64), flat[:, 1].astype(np.int64)
    loss = slowdown(isolated, upper, lower, flat[:, 2], flat[:, 3])
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


def _meeting_seconds(
    small: SmallProblem, part: Component
) -> list[tuple[float, float, float, float]]:
    """Return (upper, lower, seconds of each on the link) for every ordered pair that meets."""
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


def _sorted(oracle: Oracle, part: Component, ranks: Ints) -> list[list[int]]:
    """Return the orders by simulated value, best first; ties keep the model's order."""
    listed: list[list[int]] = ranks.tolist()
    return sorted(listed, key=lambda rank: -oracle.value(part, rank))


def _isolated_times(problem: Problem, routing: Ints | None = None) -> IsolatedTimes:
    if routing is None:  # each flow on its first path gives a first estimate of t
        routing = problem.table_start[problem.flow_table]
    return IsolatedTimes(problem.compute, problem.comm_start, communication_time(problem, routing))
