"""GPU intensity I = W / t (Crux, SIGCOMM'24, section 3): FLOP that a second of traffic serves."""

from __future__ import annotations

import numpy as np

from hostcc.schedule import sorting
from hostcc.schedule.problem import Floats, Ints, Problem


def incidence(problem: Problem, routing: Ints) -> tuple[Ints, Ints]:
    """Every (flow, link) crossing of a routing (F,): two arrays of equal length."""
    first = problem.path_start[routing]
    count = problem.path_start[routing + 1] - first
    flow = np.repeat(np.arange(len(routing)), count)
    step = np.arange(len(flow)) - np.repeat(np.cumsum(count) - count, count)
    return flow, problem.path_links[np.repeat(first, count) + step]


def link_seconds(problem: Problem, routing: Ints) -> tuple[Ints, Ints, Floats]:
    """What each job puts on each link in an iteration: (job, link, seconds at full capacity),
    one entry per pair that meets, by job, then link."""
    flow, link = incidence(problem, routing)
    key = problem.flow_job[flow] * problem.link_count + link
    pairs, where = sorting.unique(key)
    seconds = np.bincount(where, problem.flow_bytes[flow], len(pairs))
    job, link = np.divmod(pairs, max(1, problem.link_count))
    return job, link, seconds / problem.capacity[link]


def communication_time(problem: Problem, routing: Ints) -> Floats:
    """t (J,) seconds: the most that any one link needs for a job's traffic, alone; 0: none."""
    job, _, seconds = link_seconds(problem, routing)
    times = np.zeros(problem.job_count)
    np.maximum.at(times, job, seconds)
    return times


def intensity(work: Floats, times: Floats) -> Floats:
    """I = W / t (J,) FLOP/s.  A job without traffic (t = 0) has no use for priority: 0."""
    return np.divide(work, times, out=np.zeros(len(work)), where=times > 0)
