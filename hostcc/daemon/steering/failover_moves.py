"""Prepares what this host's flows do when a link or switch fails, until there is a plan.  Pure.

Only flows that a failure cuts off move, so what is prepared differs little from the plan that is
in force, and hosts that prepare from the same plan prepare the same (routing paper, 3.4).  Paths
only, and of one host: a whole plan for each failure, with order and levels (schedule.prepared),
would take as long as that many plans.  A switch is known by the links that meet at it: where one
link follows another on a path, both end there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from hostcc.model import PathTable
from hostcc.schedule.paths import fabric as fabrics
from hostcc.schedule.paths import failover
from hostcc.schedule.problem import Ints, Problem
from hostcc.schedule.switches import switches

MAX_FAILURES = 256
"""Failures prepared for: those that cut off most of a host's bytes."""

MANY_PATHS = 20_000
"""Paths above which only a host's own flows tell which links meet at a switch."""

Prepared = Mapping[frozenset[str], Mapping[str, str]]
"""Links that fail together -> own flow that they cut off -> its path afterwards."""


def prepare(
    problem: Problem, routing: Ints, own: str, tables: Iterable[PathTable], kind: str = ""
) -> Prepared:
    """Prepare for every failure that cuts off an own flow and leaves it another path.

    `routing` (F,): the path of each flow, as the plan has it; `own`: what names of own flows begin
    with in the plan, and not in the answer; `kind`: what they go on with; `tables`: those of the
    view, which say in what order links follow each other.
    """
    mine = np.array([flow.startswith(own + kind) for flow in problem.flow_ids], np.bool_)
    if not mine.any():
        return {}
    base = fabrics.from_problem(problem).table
    demand = fabrics.integer_demands(problem.flow_bytes)
    choice = routing - problem.table_start[problem.flow_table]
    made = {}
    for links in _failures(problem, routing, mine, tables)[:MAX_FAILURES]:
        moved = _after(problem, base, demand, choice, links)
        told = {
            problem.flow_ids[flow].removeprefix(own): problem.path_ids[path]
            for flow, path in moved.items()
            if mine[flow]
        }
        if told:
            made[frozenset(problem.link_ids[link] for link in links)] = told
    return made


def answer(prepared: Prepared, dead: frozenset[str], seen: frozenset[str]) -> Mapping[str, str]:
    """Choose the moves when links seem `dead`; `seen`: all links that this host knows of.

    Taken is the largest failure that explains only dead links; empty: none was prepared.
    """
    fitting = [links for links in prepared if links & dead and links & seen <= dead]
    if not fitting:
        return {}
    return prepared[max(fitting, key=lambda links: (len(links & dead), sorted(links)))]


def _failures(
    problem: Problem, routing: Ints, mine: np.ndarray, tables: Iterable[PathTable]
) -> list[tuple[int, ...]]:
    # Single links of the paths of own flows, and all links of the switches on them.
    weight: dict[int, float] = {}
    for flow in np.flatnonzero(mine).tolist():
        for link in _links(problem, int(routing[flow])):
            weight[link] = weight.get(link, 0.0) + float(problem.flow_bytes[flow])
    if len(problem.path_ids) > MANY_PATHS:
        own = {problem.flow_ids[flow] for flow in np.flatnonzero(mine)}
        ends = {flow.partition("/")[0] for flow in own}
        tables = [table for table in tables if table.src in ends]
    meeting = _switches(problem, tables)
    found: dict[tuple[int, ...], float] = {}
    for link, size in weight.items():
        for group in ((link,), *meeting.get(link, ())):
            found[group] = max(found.get(group, 0.0), size)
    return sorted(found, key=lambda links: (-found[links], links))


def _switches(problem: Problem, tables: Iterable[PathTable]) -> dict[int, list[tuple[int, ...]]]:
    # Link -> links of the switch at each of its ends.
    number = {name: index for index, name in enumerate(problem.link_ids)}
    found: dict[int, list[tuple[int, ...]]] = {}
    for names in switches(tables):
        group = tuple(sorted(number[name] for name in names if name in number))
        for link in group:
            found.setdefault(link, []).append(group)
    return found


def _after(
    problem: Problem, base: Ints, demand: np.ndarray, choice: Ints, dead: Iterable[int]
) -> dict[int, int]:
    # Flow -> its path after a failure, of those that it cuts off and that have one left.
    capacity = problem.capacity.copy()
    capacity[list(dead)] = 0.0
    left = fabrics.make(capacity, base)
    stranded, placed = failover.reroute_stranded(left, problem.flow_table, demand, choice)
    start = problem.table_start[problem.flow_table]
    return {int(f): int(start[f] + placed[f]) for f in stranded if placed[f] >= 0}


def _links(problem: Problem, path: int) -> list[int]:
    span = slice(problem.path_start[path], problem.path_start[path + 1])
    return [int(link) for link in problem.path_links[span]]
