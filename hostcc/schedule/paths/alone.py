"""Each job as if it were alone in the fabric: what it is worth, and what contention takes away."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hostcc.schedule.intensity import communication_time
from hostcc.schedule.paths import fabric as fabrics
from hostcc.schedule.paths.fabric import Fabric, Floats, Ints
from hostcc.schedule.problem import TINY_S, Problem


@dataclass(frozen=True)
class Alone:
    """The jobs on their own best paths, (J,)."""

    fabric: Fabric | None
    """The problem's candidate paths, where they are at hand."""
    period: Floats
    """Seconds; at least TINY_S."""
    comm: Floats
    """t, seconds."""
    worth: Floats
    """FLOP/s without any contention, times the owner's weight."""


def alone(problem: Problem) -> Alone:
    """What each job reaches on paths that are spread well among its own flows only."""
    fabric = fabrics.from_problem(problem)
    comm = communication_time(problem, spread(problem, fabric))
    period = np.maximum(np.maximum(problem.compute, problem.comm_start + comm), TINY_S)
    return Alone(fabric, period, comm, problem.work * problem.weight / period)


def spread(problem: Problem, fabric: Fabric) -> Ints:
    """Routing (F,): the flows of each job one by one, the largest first, on the path whose
    links have least of the job's own traffic."""
    demand = fabrics.whole(problem.flow_bytes)
    sizes, jobs, tables = demand.tolist(), problem.flow_job.tolist(), problem.flow_table.tolist()
    hops = np.ascontiguousarray(fabric.table.transpose(0, 2, 1))
    load = np.zeros(len(fabric.capacity))
    load[-1] = np.inf
    inverse = 1.0 / fabric.capacity
    inverse[-1] = 1.0
    choice = np.zeros(len(sizes), np.int64)
    touched: list[Ints] = []
    last = -1
    for flow in np.lexsort((problem.flow_table, -demand, problem.flow_job)).tolist():
        if jobs[flow] != last:
            for links in touched:
                load[links] = 0.0
            touched, last = [], jobs[flow]
        paths = hops[tables[flow]]
        use = (load[paths] + sizes[flow]) * inverse[paths]
        best = int(use.max(axis=0).argmin())
        links = paths[:, best]
        load[links] += sizes[flow]
        touched.append(links)
        choice[flow] = best
    return np.asarray(problem.table_start[problem.flow_table] + choice)
