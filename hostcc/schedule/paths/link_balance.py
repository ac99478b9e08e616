"""Paths that balance the load of links, whatever the jobs: the methods "maxmin" and "balance".

"maxmin" is max-min path choice (Cohen et al., Routing for Large ML Models, 2025): flows by falling
demand, each where its busiest link is least loaded, then local search; group by group, as groups
share no link. A demand is bytes per second of the job alone. "balance" counts flows instead where
the demands of a group are nearly equal, which is exact on a two-layer Clos (equal_demand.py);
groups with unequal demands are routed by "maxmin". Groups on a Clos of three layers are routed by
three_layer.py, groups on other fabrics by the same greedy and local search over their tables.

Flows stay where they are unless their group gains: moves from the present paths come first, the
routing from a blank sheet only where those do not come near it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from hostcc.schedule.paths import fabric as fabrics
from hostcc.schedule.paths import greedy, local_search, recognition, three_layer, two_layer
from hostcc.schedule.paths.clos import Clos, Flows
from hostcc.schedule.paths.fabric import Floats, Ints
from hostcc.schedule.paths.isolated import isolated_jobs
from hostcc.schedule.paths.recognition import Layered
from hostcc.schedule.paths.route_groups import Hops, RouteGroup, hops_of, route_groups
from hostcc.schedule.problem import Problem

MAX_EQUAL_RATIO = 1.25
"""Largest demand over the smallest up to which the demands of a group count as equal. Hosts publish
measurements in steps of 10 %, so equal flows may be two steps apart."""
MAX_LOSS_FRACTION = 0.02
"""How much worse than the routing from a blank sheet one may be that moves fewer flows."""
STEPS = 300
"""Inspections of a link by the local search of a group; from present paths, in one round of it."""
FLOWS_PER_ROUND = 1000
"""Flows of a group for which the search from present paths has one more round."""

TWO_LAYERS = "a two-layer Clos"
THREE_LAYERS = "a three-layer Clos"
OTHER = "no Clos that is known in full"


@dataclass(frozen=True)
class GroupMove:
    """Flows of a group that leave a path on which they could have stayed, and why."""

    flows: tuple[int, ...]
    before: float
    """Bytes per second over capacity of the busiest link, if they stayed."""
    after: float


@dataclass(frozen=True)
class Balanced:
    """A routing, and how it was found."""

    routing: Ints
    """(F,)"""
    moves: tuple[GroupMove, ...]
    placed: int
    """Flows that had no usable path."""
    groups: tuple[tuple[str, int], ...]
    """Groups by the kind of their fabric."""
    unequal: int
    """Groups that "balance" left to "maxmin"."""


def maxmin(problem: Problem) -> Balanced:
    """Return the routing of least congestion that is found, by measured demands."""
    return _route(problem, count_flows=False)


def balance(problem: Problem) -> Balanced:
    """Return the same, counting flows where the demands of a group are nearly equal."""
    return _route(problem, count_flows=True)


METHODS = {"maxmin": maxmin, "balance": balance}


def words(name: str, found: Balanced) -> str:
    """Say how a routing was found."""
    moved = sum(len(one.flows) for one in found.moves)
    stay = len(found.routing) - found.placed - moved
    said = f"paths: {name}: {stay} flows stay, {moved} move, {found.placed} are placed"
    for kind, count in found.groups:
        said += f", {_groups(count)} on {kind}"
    if found.unequal:
        said += f", {_groups(found.unequal)} by maxmin because demands differ"
    return said


def effect(move: GroupMove) -> str:
    """Say what a move gains."""
    before, after = f"{move.before:.2f}", f"{move.after:.2f}"
    if move.after < move.before and after != before:
        return f"lowers the load of the busiest link from {before} to {after}"
    return f"balances links, the busiest of which has a load of {after}"


def _groups(count: int) -> str:
    return "1 group" if count == 1 else f"{count} groups"


def _route(problem: Problem, *, count_flows: bool) -> Balanced:
    rate = problem.flow_bytes / isolated_jobs(problem).period[problem.flow_job]
    hops = hops_of(problem)
    found = recognition.sections(hops)
    base = problem.table_start[problem.flow_table]
    routing = np.where(problem.flow_path >= 0, problem.flow_path, base)
    moves, kinds, unequal = [], Counter[str](), 0
    for group in route_groups(hops):
        demand = rate[group.flows]
        if count_flows:
            if demand.max() <= demand.min() * MAX_EQUAL_RATIO:
                demand = np.ones(len(demand))
            else:
                unequal += 1
        before = (problem.flow_path - base)[group.flows]
        kind, after = _route_group(hops, found, group, demand, before)
        kinds[kind] += 1
        routing[group.flows] = base[group.flows] + after
        if np.any(moved := (before >= 0) & (before != after)):
            moves.append(_move(group, rate[group.flows], moved, before, after))
    placed = int((problem.flow_path < 0).sum())
    return Balanced(routing, tuple(moves), placed, tuple(sorted(kinds.items())), unequal)


def _move(
    group: RouteGroup, rate: Floats, moved: np.ndarray, before: Ints, after: Ints
) -> GroupMove:
    stayed = _busiest(group, rate, np.where(before >= 0, before, after))
    flows = tuple(group.flows[moved].tolist())
    return GroupMove(flows, float(stayed.max()), float(_busiest(group, rate, after).max()))


def _route_group(
    hops: Hops, found: recognition.Sections, group: RouteGroup, demand: Floats, present: Ints
) -> tuple[str, Ints]:
    """Return the kind of fabric, and (F,) candidates; `present` (F,) are those of now, or -1."""
    fabric, row = group.fabric, group.row
    layered = recognition.recognise(hops, found, group.tables)
    kind, blank = _from_blank_sheet(group, layered, demand)
    new = np.flatnonzero(present < 0)
    if len(new) == len(row):
        return kind, blank
    sizes = fabrics.integer_demands(demand)
    new = new[np.argsort(-sizes[new], kind="stable")]
    kept = greedy.place(fabric, row, sizes, new.tolist(), present)
    if _near(group, demand, kept, blank):
        return kind, kept
    improved = kept
    for _ in range(1 + len(row) // FLOWS_PER_ROUND):
        last = improved
        improved = local_search.improve(fabric, row, sizes, last, steps=STEPS)
        if _near(group, demand, improved, blank):
            return kind, improved
        if np.array_equal(improved, last):
            break
    lower = _busiest(group, demand, blank).max() < _busiest(group, demand, improved).max()
    return kind, blank if lower else improved


def _near(group: RouteGroup, demand: Floats, one: Ints, other: Ints) -> bool:
    """Return whether candidates `one` are nearly as good as `other`, at the worst and on average.

    What counts is the busiest link that each flow crosses.
    """
    ours, theirs = _busiest(group, demand, one), _busiest(group, demand, other)
    most = 1 + MAX_LOSS_FRACTION
    mean = [float((load * demand).sum()) for load in (ours, theirs)]
    return bool(ours.max() <= theirs.max() * most and mean[0] <= mean[1] * most)


def _busiest(group: RouteGroup, demand: Floats, choice: Ints) -> Floats:
    """Return (F,) the load over capacity of the busiest link that each flow crosses."""
    load = fabrics.loads(group.fabric, group.row, demand, choice) / group.fabric.capacity
    load[-2] = 0.0
    return np.asarray(load[group.fabric.table[group.row, choice]].max(axis=1))


def _from_blank_sheet(
    group: RouteGroup, layered: Layered | None, demand: Floats
) -> tuple[str, Ints]:
    """Return the kind of fabric, and (F,) candidates regardless of present paths."""
    if layered is None:
        sizes = fabrics.integer_demands(demand)
        start = greedy.longest_first(group.fabric, group.row, sizes)
        return OTHER, local_search.improve(group.fabric, group.row, sizes, start, steps=STEPS)
    src, dst, key = layered.src[group.row], layered.dst[group.row], np.arange(len(group.row))
    if isinstance(layered.clos, Clos):
        spine = two_layer.route(layered.clos, Flows(src, dst, demand, key)).spine
        return TWO_LAYERS, layered.candidate[group.row, spine]
    choice = three_layer.route(layered.clos, src, dst, demand, key).choice
    return THREE_LAYERS, layered.candidate[group.row, choice]
