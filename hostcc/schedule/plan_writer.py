"""Writes a Solution as a Plan, in words and names.

Most flows and reasons of a plan equal those of the plan before, and are taken from it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from operator import attrgetter, is_, ne
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hostcc.model import FlowPlan, JobPlan, Plan
from hostcc.schedule import parameters
from hostcc.schedule.name_list import places
from hostcc.schedule.problem import Ints

if TYPE_CHECKING:
    from hostcc.schedule.plan import Solution

MIN_FLOWS_PER_CHANGE = 16
"""Flows are updated in place if fewer than one in this many changed; else all are sorted again."""

_flow: Callable[[FlowPlan], str] = attrgetter("flow")
_reason_of: Callable[[JobPlan], str] = attrgetter("reason")


def write_plan(
    digest: str, found: Solution, before: Solution | None = None, last: Plan | None = None
) -> Plan:
    """Return the plan of a solution; `digest` is that of its view.

    `last`: the plan that was written of the solution `before`, from which equal parts are taken.
    """
    if before is None or last is None:
        reasons, flows = [""] * found.problem.job_count, _all_flows(found)
    else:
        reasons, flows = _same_reasons(found, before, last), _flows(found, before, last)
    _fill(reasons, found)
    return Plan(digest, tuple(_jobs(found, reasons)), tuple(flows), found.decision.how)


def _jobs(found: Solution, reasons: list[str]) -> Iterable[JobPlan]:
    weights = found.weight.tolist()
    given = {weight: ((parameters.WEIGHT, weight),) for weight in set(weights)}
    return map(
        JobPlan,
        found.problem.job_ids,
        found.decision.rank.tolist(),
        found.level.tolist(),
        found.priority.tolist(),
        found.shifts.seconds.tolist(),
        map(given.__getitem__, weights),
        reasons,
    )


def _all_flows(found: Solution) -> list[FlowPlan]:
    ways = found.problem.path_ids.some(found.decision.routing)
    return sorted(map(FlowPlan, found.problem.flow_ids, ways), key=_flow)


def _flows(found: Solution, before: Solution, last: Plan) -> list[FlowPlan]:
    """Return the flows by name, with changed ones put in their places."""
    names, old = found.problem.flow_ids, before.problem.flow_ids
    at = places(names, old)
    here = np.flatnonzero(at >= 0)
    gone = np.ones(len(old), np.bool_)
    gone[at[here]] = False
    at[here[~_same_ways(found, before, here, at[here])]] = -1
    changed = np.flatnonzero(at < 0)
    if (len(changed) + int(gone.sum())) * MIN_FLOWS_PER_CHANGE > len(names):
        return _all_flows(found)
    flows = list(last.flows)
    for flow in np.flatnonzero(gone).tolist():
        del flows[bisect_left(flows, old[flow], key=_flow)]
    ways = found.problem.path_ids.some(found.decision.routing[changed])
    for flow, way in zip(changed.tolist(), ways, strict=True):
        one = FlowPlan(names[flow], way)
        place = bisect_left(flows, one.flow, key=_flow)
        if place < len(flows) and flows[place].flow == one.flow:
            flows[place] = one
        else:
            flows.insert(place, one)
    return flows


def _same_ways(found: Solution, before: Solution, here: Ints, there: Ints) -> NDArray[np.bool_]:
    """Return whether flows `here` have the same paths as flows `there` before.

    Only recognises paths of tables that were taken over unchanged.
    """
    table = _same_tables(found, before)[before.problem.flow_table[there]]
    its, was = (
        solution.decision.routing[flow] - problem.table_start[problem.flow_table[flow]]
        for solution, problem, flow in (
            (found, found.problem, here),
            (before, before.problem, there),
        )
    )
    return np.asarray((table == found.problem.flow_table[here]) & (its == was))


def _same_tables(found: Solution, before: Solution) -> Ints:
    """Return (previous tables,) the present index of each that is unchanged; -1: it is not."""
    new, old = found.problem.path_ids, before.problem.path_ids
    at = places(before.reading.tables.keys, found.reading.tables.keys)
    if new is not old:
        here = np.flatnonzero(at >= 0)
        now = map(new.parts.__getitem__, at[here].tolist())
        were = map(old.parts.__getitem__, here.tolist())
        at[here[~np.fromiter(map(is_, now, were), np.bool_, len(here))]] = -1
    return at


def _same_reasons(found: Solution, before: Solution, last: Plan) -> list[str]:
    """Return (J,) reasons that are as before; the others are empty."""
    at = places(found.problem.job_ids, before.problem.job_ids)
    here = np.flatnonzero(at >= 0)
    old = at[here]
    same = (
        (before.priority[old] == found.priority[here])
        & (before.times[old] == found.times[here])
        & (before.contenders[old] == found.contenders[here])
        & (before.problem.blind[old] == found.problem.blind[here])
    )
    here, old = here[same], old[same]
    words, were = (
        list(map(solution.shifts.reason.__getitem__, which.tolist()))
        for solution, which in ((found, here), (before, old))
    )
    if words != were:
        same = ~np.fromiter(map(ne, words, were), np.bool_, len(words))
        here, old = here[same], old[same]
    reasons = [""] * len(at)
    kept = map(_reason_of, map(last.jobs.__getitem__, old.tolist()))
    for job, reason in zip(here.tolist(), kept, strict=True):
        reasons[job] = reason
    return reasons


def _fill(reasons: list[str], found: Solution) -> None:
    others = np.array([job for job, said in enumerate(reasons) if not said], np.int64)
    rows = zip(
        others.tolist(),
        found.priority[others].tolist(),
        found.times[others].tolist(),
        found.contenders[others].tolist(),
        found.problem.blind[others].tolist(),
        strict=True,
    )
    for job, value, seconds, its, blind in rows:
        reasons[job] = _reason(value, seconds, its, blind, found.shifts.reason[job])


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
