"""Plans that follow one another: nothing moves without a gain that is stated.

A flow that is on a usable path stays there unless moving it lowers the predicted loss by more
than a part of what its own job is worth.  New flows, and those whose path has gone, are placed
among the others.  What has not changed is not looked at again: one job that arrives among
thousands costs little.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hostcc.schedule.intensity import crossed, incidence
from hostcc.schedule.paths import fabric as fabrics
from hostcc.schedule.paths import greedy, moves, pair_search, prediction
from hostcc.schedule.paths.alone import Alone
from hostcc.schedule.paths.fabric import Floats, Ints
from hostcc.schedule.problem import TINY_S, Problem

WORTHWHILE = 0.01
"""Part of its job's worth (FLOP/s without contention) below which no flow is moved."""
ROUNDS = 3
"""Of moves, when all flows are looked at; what new flows touch is looked at once."""
MAX_MOVES = 256
"""Of flows that could stay, in one plan."""


@dataclass(frozen=True)
class Move:
    """A flow that leaves a path on which it could have stayed."""

    flow: int
    before: int
    after: int
    gain: float
    """FLOP/s that the prediction gains by this move."""


@dataclass(frozen=True)
class Replan:
    """A routing that follows another."""

    routing: Ints
    """(F,)"""
    placed: Ints
    """Flows that had no usable path before: new ones, and those whose path has failed."""
    moves: tuple[Move, ...]


def replan(problem: Problem, *, worthwhile: float = WORTHWHILE) -> Replan:
    """The next routing of a Problem whose `flow_path` says where the flows are (-1: nowhere).

    `worthwhile`: part of its job's worth that a flow's move has to gain.  When flows were
    placed, only those that share links with them are looked at; else all.
    """
    routing, placed = keep(problem)
    if len(placed):
        return Replan(*_settle(problem, routing, placed, worthwhile))
    made: dict[int, Move] = {}
    best: tuple[Ints, tuple[Move, ...]] = (routing, ())
    least = np.inf
    for _ in range(ROUNDS + 1):
        now = moves.occupancy(problem, None, routing)
        reference = _as_it_is(problem, now.comm)
        loss = prediction.assess(problem, reference, now.comm, now.job, now.starts, now.seconds)
        if loss.total >= least or moves.offered(problem, now) > pair_search.OVERLOAD:
            break
        best, least = (routing, tuple(made.values())), loss.total
        flows = pair_search.suffering(problem, loss.pain)
        if not len(flows):
            break
        tried = moves.trials(problem, reference, now, flows, rough=loss.rough)
        toll = worthwhile * reference.worth[problem.flow_job[tried.flow]]
        toll[np.isin(tried.flow, list(made))] = np.inf  # once in a plan
        gain = tried.gain()
        rows = moves.independent(problem, routing, tried, toll)[: MAX_MOVES - len(made)]
        if not rows:
            break
        routing = routing.copy()
        for row in rows:
            flow, path = int(tried.flow[row]), int(tried.path[row])
            made[flow] = Move(flow, int(routing[flow]), path, float(gain[row]))
            routing[flow] = path
    return Replan(best[0], placed, best[1])


def _settle(
    problem: Problem, routing: Ints, placed: Ints, worthwhile: float
) -> tuple[Ints, Ints, tuple[Move, ...]]:
    """Better places for flows that were just placed, and for those that they meet."""
    now = moves.occupancy(problem, None, routing)
    flows = _affected(problem, now, placed)
    if not len(flows) or moves.offered(problem, now) > pair_search.OVERLOAD:
        return routing, placed, ()
    reference = _as_it_is(problem, now.comm)
    rough = len(flows) > pair_search.FLOWS // 4
    tried = moves.trials(problem, reference, now, flows[: pair_search.FLOWS], rough=rough)
    gain = tried.gain()
    fresh = np.isin(tried.flow, placed)
    toll = np.where(fresh, 0.0, worthwhile * reference.worth[problem.flow_job[tried.flow]])
    made = []
    for row in moves.independent(problem, routing, tried, toll)[:MAX_MOVES]:
        flow, path = int(tried.flow[row]), int(tried.path[row])
        if not fresh[row]:
            made.append(Move(flow, int(routing[flow]), path, float(gain[row])))
        routing[flow] = path
    return routing, placed, tuple(made)


def keep(problem: Problem) -> tuple[Ints, Ints]:
    """Routing (F,) in which flows that are on a path stay and the others are placed, and
    those others."""
    placed = np.flatnonzero(problem.flow_path < 0)
    routing = problem.flow_path.copy()
    routing[placed] = problem.table_start[problem.flow_table[placed]]
    if not len(placed):
        return routing, placed
    flow, link = incidence(problem, routing)
    comm = crossed(problem, flow, link).times(problem.job_count)
    period = _as_it_is(problem, comm).period
    duty = fabrics.whole(problem.flow_bytes / period[problem.flow_job])
    on = (problem.flow_path >= 0)[flow]
    load = np.bincount(link[on], duty[flow[on]], problem.link_count + 2).astype(np.float64)
    tables, at = np.unique(problem.flow_table[placed], return_inverse=True)
    fabric = fabrics.from_problem(problem, tables)
    order = np.argsort(-duty[placed], kind="stable")
    empty = np.full(len(placed), -1, np.int64)
    found = greedy.place(fabric, at.reshape(-1), duty[placed], order.tolist(), empty, load)
    routing[placed] += found
    return routing, placed


def _as_it_is(problem: Problem, comm: Floats) -> Alone:
    """Each job on the paths that it has, without the others; `comm` (J,) its t."""
    period = np.maximum(np.maximum(problem.compute, problem.comm_start + comm), TINY_S)
    return Alone(None, period, comm, problem.work * problem.weight / period)


def _affected(problem: Problem, now: moves.Occupancy, placed: Ints) -> Ints:
    """Flows with a choice: the placed ones, then those of jobs that share a link with theirs."""
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
