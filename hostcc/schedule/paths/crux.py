"""Path selection of Crux and of TACCL* (Crux, SIGCOMM'24, sections 4.1 and 6), job by job.

Choices that the paper leaves open: the congestion of a path is the largest share of time that any
of its links is in use (bytes over capacity and iteration time), the flow included. The first path
by name wins a tie. The t that intensity needs before there are paths is that on each job's own best
paths.
"""

from __future__ import annotations

import numpy as np

from hostcc.schedule.paths import fabric as fabrics
from hostcc.schedule.paths import greedy
from hostcc.schedule.paths.fabric import Floats, Ints
from hostcc.schedule.paths.isolated import IsolatedJobs, isolated_jobs
from hostcc.schedule.problem import TINY_S, Problem


def crux(
    problem: Problem, reference: IsolatedJobs | None = None, *, by_bytes: bool = False
) -> Ints:
    """Return a routing (F,): jobs by intensity, each flow on its least congested path.

    `reference`: the result of isolated_jobs(), if known. `by_bytes`: measure congestion in bytes,
    regardless of the iteration time.
    """
    reference = isolated_jobs(problem) if reference is None else reference
    # I = W / t; a job without traffic has no flows to place.
    worth = problem.work * problem.weight / np.maximum(reference.comm, TINY_S)
    demand = problem.flow_bytes
    if not by_bytes:
        demand = demand / reference.period[problem.flow_job]
    demand = fabrics.integer_demands(demand)
    order = np.lexsort((-demand, problem.flow_job, -worth[problem.flow_job]))
    return _place(problem, demand, order)


def taccl(problem: Problem) -> Ints:
    """Return a routing (F,): jobs with most traffic first, congestion in bytes."""
    demand = fabrics.integer_demands(problem.flow_bytes)
    total = np.bincount(problem.flow_job, demand, problem.job_count)
    order = np.lexsort((-demand, problem.flow_job, -total[problem.flow_job]))
    return _place(problem, demand, order)


def _place(problem: Problem, demand: Floats, order: Ints) -> Ints:
    choices = fabrics.choices(problem)
    first, row = problem.table_start[problem.flow_table], choices.row[problem.flow_table]
    only = fabrics.links_of(problem, first)
    only[only < 0] = choices.fabric.link_count
    empty = np.full(problem.flow_count, -1, np.int64)
    found = greedy.place(choices.fabric, row, demand, order.tolist(), empty, only=only)
    return np.asarray(first + found)
