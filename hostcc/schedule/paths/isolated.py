"""Each job as if it were alone in the fabric: the baseline for what contention costs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hostcc.schedule.intensity import communication_time
from hostcc.schedule.paths import fabric as fabrics
from hostcc.schedule.paths.fabric import Choices, Floats, Ints
from hostcc.schedule.problem import TINY_S, Problem

MAX_JOINT_FLOWS = 24
"""Flows of a job up to which those of all jobs are placed together, in vectors."""


@dataclass(frozen=True)
class IsolatedJobs:
    """The jobs on their own best paths, (J,)."""

    period: Floats
    """Seconds; at least TINY_S."""
    comm: Floats
    """t, seconds."""
    worth: Floats
    """FLOP/s without any contention, times the owner's weight."""


def isolated_jobs(problem: Problem) -> IsolatedJobs:
    """Return what each job reaches on paths that spread only its own flows well."""
    comm = communication_time(problem, spread(problem, fabrics.choices(problem)))
    period = np.maximum(np.maximum(problem.compute, problem.comm_start + comm), TINY_S)
    return IsolatedJobs(period, comm, problem.work * problem.weight / period)


def spread(problem: Problem, choices: Choices) -> Ints:
    """Return a routing (F,): each flow on the path with the least traffic of its own job.

    Flows of a job are placed one by one, the largest first.
    """
    order = np.lexsort((problem.flow_table, -problem.flow_bytes, problem.flow_job))
    job = problem.flow_job[order]
    turn = np.arange(len(order)) - np.searchsorted(job, job)
    if int(turn.max(initial=0)) < MAX_JOINT_FLOWS:
        return _together(problem, choices, order, turn)
    return _one_by_one(problem, choices, order)


def _together(problem: Problem, choices: Choices, order: Ints, turn: Ints) -> Ints:
    """Place the first flows of all jobs at once, then the second, and so on."""
    fabric, demand = choices.fabric, fabrics.integer_demands(problem.flow_bytes)
    routing = problem.table_start[problem.flow_table]
    row = choices.row[problem.flow_table]
    placed: list[tuple[Ints, Floats]] = []
    """For each turn (J, H) links of the job's flow, -1 for none, and (J,) its demand."""
    for number in range(int(turn.max(initial=-1)) + 1):
        flows = order[turn == number]
        free = flows[row[flows] >= 0]
        paths, job = fabric.table[row[free]], problem.flow_job[free]
        load = np.broadcast_to(demand[free][:, None, None], paths.shape).copy()
        for links, size in placed:
            for link in links[job].T:
                load += (paths == link[:, None, None]) * size[job][:, None, None]
        use = load / fabric.capacity[paths]
        use[paths == fabric.link_count] = 0.0
        use[paths > fabric.link_count] = np.inf
        routing[free] += use.max(axis=2).argmin(axis=1)
        job, own = problem.flow_job[flows], fabrics.links_of(problem, routing[flows])
        links, size = np.full((problem.job_count, own.shape[1]), -1), np.zeros(problem.job_count)
        links[job], size[job] = own, demand[flows]
        placed.append((links, size))
    return routing


def _one_by_one(problem: Problem, choices: Choices, order: Ints) -> Ints:
    """Place flows in the same way, for jobs of very many flows."""
    fabric, demand = choices.fabric, fabrics.integer_demands(problem.flow_bytes)
    sizes, jobs = demand.tolist(), problem.flow_job.tolist()
    rows = choices.row[problem.flow_table].tolist()
    routing = problem.table_start[problem.flow_table]
    alone = fabrics.links_of(problem, routing)
    alone[alone < 0] = fabric.link_count
    hops = np.ascontiguousarray(fabric.table.transpose(0, 2, 1))
    load = np.zeros(len(fabric.capacity))
    load[-1] = np.inf
    touched: list[Ints] = []
    last = -1
    for flow in order.tolist():
        if jobs[flow] != last:
            for links in touched:
                load[links] = 0.0
            touched, last = [], jobs[flow]
        links = alone[flow]
        if rows[flow] >= 0:
            paths = hops[rows[flow]]
            use = (load[paths] + sizes[flow]) / fabric.capacity[paths]
            best = int(use.max(axis=0).argmin())
            links = paths[:, best]
            routing[flow] += best
        load[links] += sizes[flow]
        touched.append(links)
    return routing
