"""Explains how a plan treats one job, in words and with the figures behind them."""

from __future__ import annotations

import numpy as np

from hostcc.answers.plan import Contender, Explanation, FlowReason
from hostcc.errors import NoJobError
from hostcc.schedule import fairness, methods
from hostcc.schedule import order as orders
from hostcc.schedule.correction import correction, reference_job
from hostcc.schedule.intensity import intensity
from hostcc.schedule.link_load import link_loads
from hostcc.schedule.plan import Solution
from hostcc.schedule.problem import Floats

MAX_CONTENDERS = 100
"""Contenders that are listed, the highest ranks first."""


def explain(found: Solution, name: str) -> Explanation:
    """Explain one job. Raises NoJobError for a job that is not in the view."""
    problem = found.problem
    if name not in problem.job_ids:
        raise NoJobError(f"no job {name!r:.70} among the {problem.job_count} that are planned")
    job = problem.job_ids.index(name)
    rank = found.decision.rank
    losses = orders.losses(methods.isolated_times(problem, found.decision.routing), found.met)
    contenders = _contenders(found, losses, job)
    return Explanation(
        name,
        int(rank[job]),
        int(found.level[job]),
        float(fairness.speeds(rank, losses)[job]),
        _order(found, job),
        _levels(found, job, contenders),
        _parameters(found, job, bool(contenders)),
        found.shifts.reason[job] or "no time-shift: its links have room for all at once",
        tuple(contenders[:MAX_CONTENDERS]),
        tuple(_flows(found, job)),
    )


def _order(found: Solution, job: int) -> str:
    problem, times = found.problem, found.times
    if problem.blind[job]:
        return "no usable path is known for its traffic: it goes last, at best effort"
    if not times[job]:
        return "it sends nothing that is worth a priority"
    traffic: Floats = np.bincount(problem.flow_job, problem.flow_bytes, problem.job_count).astype(
        np.float64
    )
    reference = reference_job(traffic)
    k = correction(problem.compute, problem.comm_start, times, reference)[job]
    value = intensity(problem.work, times)[job]
    words = f"I = W / t = {problem.work[job]:.4g} / {times[job]:.4g} = {value:.4g} FLOP/s"
    words += f"; k = {k:.3g} against {problem.job_ids[reference]}, P = k I = {k * value:.4g}"
    if problem.assumed[job]:
        words += f"; W is assumed: {problem.assumed[job]}"
    if problem.weight[job] != 1:
        words += f"; its owner's weight is {problem.weight[job]:g}"
    if found.options.fairness and problem.slowdown[job] > 1:
        words += f"; it was {problem.slowdown[job]:.2f} times slower than alone"
    return f"{words}; {found.decision.how}"


def _contenders(found: Solution, losses: orders.Losses, job: int) -> list[Contender]:
    rank, level, met = found.decision.rank, found.level, found.met
    listed = []
    for mine, theirs, below, above in (
        (met.one, met.other, losses.one_below, losses.other_below),
        (met.other, met.one, losses.other_below, losses.one_below),
    ):
        for index in np.flatnonzero(mine == job).tolist():
            other = int(theirs[index])
            before = bool(rank[other] < rank[job])
            loses = float(below[index] if before else above[index])
            listed.append(
                Contender(
                    found.problem.job_ids[other], int(rank[other]), int(level[other]), before, loses
                )
            )
    return sorted(listed, key=lambda one: one.rank)


def _levels(found: Solution, job: int, contenders: list[Contender]) -> str:
    mine = int(found.level[job])
    if not contenders:
        return f"level {mine}: it shares no link"
    count = [
        sum(one.level < mine for one in contenders),
        sum(one.level == mine for one in contenders),
        sum(one.level > mine for one in contenders),
    ]
    return (
        f"level {mine}: of the {len(contenders)} jobs that it shares links with {count[0]} are on "
        f"higher levels, {count[1]} on the same, {count[2]} on lower ones"
    )


def _parameters(found: Solution, job: int, competes: bool) -> str:
    weight, owner = float(found.weight[job]), float(found.problem.weight[job])
    if not competes:
        return f"weight {weight:.4g}: its owner's, it shares no link"
    return f"weight {weight:.4g}: its owner's {owner:g} times {weight / owner:.4g} for its level"


def _flows(found: Solution, job: int) -> list[FlowReason]:
    problem, routing = found.problem, found.decision.routing
    load = link_loads(found).total
    effects = {flow: one.effect for one in found.decision.moved for flow in one.flows}
    together = {flow: len(one.flows) for one in found.decision.moved for flow in one.flows}
    apart = set(found.decision.on_free_paths)
    reasons = []
    for flow in np.flatnonzero(problem.flow_job == job).tolist():
        path, before = int(routing[flow]), int(problem.flow_path[flow])
        links = problem.path_links[problem.path_start[path] : problem.path_start[path + 1]]
        busiest = int(links[np.argmax(load[links])]) if len(links) else -1
        choices = int(np.diff(problem.table_start)[problem.flow_table[flow]])
        if flow in apart:
            how = "stays on" if path == before else "moves to" if before >= 0 else "placed on"
            words = f"{how} a path of its own, where it shares no link that it could avoid"
        elif flow in effects:
            beside = f" with {together[flow] - 1} other flows" if together[flow] > 1 else ""
            words = f"moves{beside}: {effects[flow]}"
        elif before >= 0 and path != before:
            words = f"moves: the method {found.options.paths!r} chooses every path anew"
        elif before >= 0:
            words = "stays: no move gains enough"
        else:
            words = f"placed: the best found of {choices} paths"
        reasons.append(
            FlowReason(
                problem.flow_ids[flow],
                problem.path_ids[path],
                problem.path_ids[before] if before >= 0 else "",
                problem.link_ids[busiest] if busiest >= 0 else "",
                float(load[busiest]) if busiest >= 0 else 0.0,
                words if choices > 1 else "the only path",
            )
        )
    return reasons
