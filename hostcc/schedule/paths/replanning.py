"""Updates a routing: no flow moves without a stated gain.

A flow on a usable path moves only if that lowers the predicted loss by more than a fraction of its
own job's worth. New flows, and those whose path is gone, are placed among the others. What has not
changed is not considered again, so one job that arrives among thousands costs little.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hostcc.schedule.intensity import crossed, incidence
from hostcc.schedule.paths import fabric as fabrics
from hostcc.schedule.paths import greedy, moves, pair_search, prediction
from hostcc.schedule.paths.fabric import Floats, Ints
from hostcc.schedule.paths.isolated import IsolatedJobs
from hostcc.schedule.problem import TINY_S, Problem

MIN_GAIN_FRACTION = 0.01
"""Fraction of its job's worth (FLOP/s without contention) that a move must gain."""
MAX_ROUNDS = 3
"""Rounds of moves when all flows are considered; those near new flows get one round."""
MAX_MOVES = 256
"""Moves, in one plan, of flows that could stay."""


@dataclass(frozen=True)
class Move:
    """A flow that leaves a path on which it could have stayed."""

    flow: int
    before: int
    after: int
    gain: float
    """Predicted gain of this move in FLOP/s."""


@dataclass(frozen=True)
class Replan:
    """A routing that follows another."""

    routing: Ints
    """(F,)"""
    placed: Ints
    """Flows that had no usable path: new ones, and those whose path has failed."""
    moves: tuple[Move, ...]


def replan(problem: Problem, *, min_gain_fraction: float = MIN_GAIN_FRACTION) -> Replan:
    """Return the next routing of a Problem whose `flow_path` has the present paths (-1: none).

    `min_gain_fraction`: fraction of its job's worth that a flow's move has to gain. If flows were
    placed, only those that share links with them are considered, else all.
    """
    routing, placed = keep_paths(problem)
    if len(placed):
        return Replan(*_improve_placed(problem, routing, placed, min_gain_fraction))
    made: dict[int, Move] = {}
    best: tuple[Ints, tuple[Move, ...]] = (routing, ())
    least = np.inf
    for _ in range(MAX_ROUNDS + 1):
        now = moves.occupancy(problem, None, routing)
        reference = _jobs_as_routed(problem, now.comm)
        loss = prediction.assess(problem, reference, now.comm, now.job, now.starts, now.seconds)
        if loss.total >= least or moves.mean_peak_load(problem, now) > pair_search.MAX_MEAN_LOAD:
            break
        best, least = (routing, tuple(made.values())), loss.total
        flows = pair_search.losing_flows(problem, loss.job_loss)
        if not len(flows):
            break
        tried = moves.trials(problem, reference, now, flows, rough=loss.rough)
        min_gain = min_gain_fraction * reference.worth[problem.flow_job[tried.flow]]
        min_gain[np.isin(tried.flow, list(made))] = np.inf  # a flow moves once in a plan
        gain = tried.gain()
        rows = moves.independent(problem, routing, tried, min_gain)[: MAX_MOVES - len(made)]
        if not rows:
            break
        routing = routing.copy()
        for row in rows:
            flow, path = int(tried.flow[row]), int(tried.path[row])
            made[flow] = Move(flow, int(routing[flow]), path, float(gain[row]))
            routing[flow] = path
    return Replan(best[0], placed, best[1])


def _improve_placed(
    problem: Problem, routing: Ints, placed: Ints, min_gain_fraction: float
) -> tuple[Ints, Ints, tuple[Move, ...]]:
    """Find better paths for flows that were just placed, and for those that they meet."""
    now = moves.occupancy(problem, None, routing)
    flows = _affected(problem, now, placed)
    if not len(flows) or moves.mean_peak_load(problem, now) > pair_search.MAX_MEAN_LOAD:
        return routing, placed, ()
    reference = _jobs_as_routed(problem, now.comm)
    rough = len(flows) > pair_search.MAX_FLOWS_PER_ROUND // 4
    tried = moves.trials(
        problem, reference, now, flows[: pair_search.MAX_FLOWS_PER_ROUND], rough=rough
    )
    gain = tried.gain()
    fresh = np.isin(tried.flow, placed)
    min_gain = np.where(
        fresh, 0.0, min_gain_fraction * reference.worth[problem.flow_job[tried.flow]]
    )
    made = []
    for row in moves.independent(problem, routing, tried, min_gain)[:MAX_MOVES]:
        flow, path = int(tried.flow[row]), int(tried.path[row])
        if not fresh[row]:
            made.append(Move(flow, int(routing[flow]), path, float(gain[row])))
        routing[flow] = path
    return routing, placed, tuple(made)


def keep_paths(problem: Problem) -> tuple[Ints, Ints]:
    """Return a routing (F,) in which flows keep their paths and the others are placed; and those
    others."""
    placed = np.flatnonzero(problem.flow_path < 0)
    routing = problem.flow_path.copy()
    routing[placed] = problem.table_start[problem.flow_table[placed]]
    if not len(placed):
        return routing, placed
    flow, link = incidence(problem, routing)
    comm = crossed(problem, flow, link).times(problem.job_count)
    period = _jobs_as_routed(problem, comm).period
    duty = fabrics.integer_demands(problem.flow_bytes / period[problem.flow_job])
    on = (problem.flow_path >= 0)[flow]
    load = np.bincount(link[on], duty[flow[on]], problem.link_count + 2).astype(np.float64)
    tables, at = np.unique(problem.flow_table[placed], return_inverse=True)
    fabric = fabrics.from_problem(problem, tables)
    order = np.argsort(-duty[placed], kind="stable")
    empty = np.full(len(placed), -1, np.int64)
    found = greedy.place(fabric, at.reshape(-1), duty[placed], order.tolist(), empty, load)
    routing[placed] += found
    return routing, placed


def _jobs_as_routed(problem: Problem, comm: Floats) -> IsolatedJobs:
    """Return each job on its present paths, without the others; `comm` (J,) is its t."""
    period = np.maximum(np.maximum(problem.compute, problem.comm_start + comm), TINY_S)
    return IsolatedJobs(None, period, comm, problem.work * problem.weight / period)


def _affected(problem: Problem, now: moves.Occupancy, placed: Ints) -> Ints:
    """Return flows with a choice: the placed ones, then those of jobs that meet them."""
    options = np.diff(problem.table_start)[problem.flow_table]
    jobs = np.zeros(problem.job_count, np.bool_)
    jobs[problem.flow_job[placed]] = True
    link = np.repeat(np.arange(problem.link_count), np.diff(now.starts))
    shared = np.zeros(problem.link_count, np.bool_)
    shared[link[jobs[now.job]]] = True
    jobs[now.job[shared[link]]] = True
    others = jobs[problem.flow_job] & (options > 1)
    others[placed] = False
    return np.concatenate([placed[options[placed] > 1], np.flatnonzero(others)])
