"""Each job as if it were alone in the fabric: the baseline for what contention costs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hostcc.schedule.intensity import communication_time
from hostcc.schedule.paths import fabric as fabrics
from hostcc.schedule.paths.fabric import Fabric, Floats, Ints
from hostcc.schedule.problem import TINY_S, Problem

MAX_JOINT_FLOWS = 24
"""Flows of a job up to which those of all jobs are placed together, in vectors."""


@dataclass(frozen=True)
class IsolatedJobs:
    """The jobs on their own best paths, (J,)."""

    fabric: Fabric | None
    """Candidate paths of the problem, if they were computed."""
    period: Floats
    """Seconds; at least TINY_S."""
    comm: Floats
    """t, seconds."""
    worth: Floats
    """FLOP/s without any contention, times the owner's weight."""


def isolated_jobs(problem: Problem) -> IsolatedJobs:
    """Return what each job reaches on paths that spread only its own flows well."""
    fabric = fabrics.from_problem(problem)
    comm = communication_time(problem, spread(problem, fabric))
    period = np.maximum(np.maximum(problem.compute, problem.comm_start + comm), TINY_S)
    return IsolatedJobs(fabric, period, comm, problem.work * problem.weight / period)


def spread(problem: Problem, fabric: Fabric) -> Ints:
    """Return a routing (F,): each flow on the path with the least traffic of its own job.

    Flows of a job are placed one by one, the largest first.
    """
    order = np.lexsort((problem.flow_table, -problem.flow_bytes, problem.flow_job))
    job = problem.flow_job[order]
    turn = np.arange(len(order)) - np.searchsorted(job, job)
    if int(turn.max(initial=0)) < MAX_JOINT_FLOWS:
        choice = _together(problem, fabric, order, turn)
    else:
        choice = _one_by_one(problem, fabric, order)
    return np.asarray(problem.table_start[problem.flow_table] + choice)


def _together(problem: Problem, fabric: Fabric, order: Ints, turn: Ints) -> Ints:
    """Return (F,) candidates: the first flows of all jobs at once, then the second, and so on."""
    demand = fabrics.integer_demands(problem.flow_bytes)
    choice = np.zeros(len(order), np.int64)
    depth = fabric.table.shape[2]
    held = np.full((problem.job_count, 0), -1, np.int64)
    sizes = np.zeros((problem.job_count, 0))
    for number in range(int(turn.max(initial=-1)) + 1):
        flows = order[turn == number]
        job = problem.flow_job[flows]
        paths = fabric.table[problem.flow_table[flows]]
        load = np.broadcast_to(demand[flows][:, None, None], paths.shape).copy()
        for column in range(held.shape[1]):
            load += (paths == held[job, column][:, None, None]) * sizes[job, column, None, None]
        use = load / fabric.capacity[paths]
        use[paths == fabric.link_count] = 0.0
        use[paths > fabric.link_count] = np.inf
        best = use.max(axis=2).argmin(axis=1)
        choice[flows] = best
        links = np.full((problem.job_count, depth), -1, np.int64)
        links[job] = paths[np.arange(len(flows)), best]
        links[links >= fabric.link_count] = -1
        mine = np.zeros((problem.job_count, depth))
        mine[job] = demand[flows][:, None]
        held = np.concatenate([held, links], axis=1)
        sizes = np.concatenate([sizes, mine], axis=1)
    return choice


def _one_by_one(problem: Problem, fabric: Fabric, order: Ints) -> Ints:
    """Return (F,) candidates in the same way, for jobs of very many flows."""
    demand = fabrics.integer_demands(problem.flow_bytes)
    sizes, jobs, tables = demand.tolist(), problem.flow_job.tolist(), problem.flow_table.tolist()
    hops = np.ascontiguousarray(fabric.table.transpose(0, 2, 1))
    load = np.zeros(len(fabric.capacity))
    load[-1] = np.inf
    choice = np.zeros(len(sizes), np.int64)
    touched: list[Ints] = []
    last = -1
    for flow in order.tolist():
        if jobs[flow] != last:
            for links in touched:
                load[links] = 0.0
            touched, last = [], jobs[flow]
        paths = hops[tables[flow]]
        use = (load[paths] + sizes[flow]) / fabric.capacity[paths]
        best = int(use.max(axis=0).argmin())
        links = paths[:, best]
        load[links] += sizes[flow]
        touched.append(links)
        choice[flow] = best
    return choice
