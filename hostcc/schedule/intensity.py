"""GPU intensity I = W / t (Crux, SIGCOMM'24, section 3): FLOP that a second of traffic serves."""

from __future__ import annotations

from dataclasses import dataclass

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


@dataclass(frozen=True)
class Crossings:
    """What each job puts on each link in an iteration, one entry per pair that meets, by job,
    then link."""

    job: Ints
    link: Ints
    seconds: Floats
    """At full capacity."""

    def times(self, jobs: int) -> Floats:
        """t (J,) seconds: the most that any one link needs for a job's traffic, alone; 0: none."""
        times = np.zeros(jobs)
        np.maximum.at(times, self.job, self.seconds)
        return times


def crossings(problem: Problem, routing: Ints) -> Crossings:
    """Of a routing (F,)."""
    return Crossings(*link_seconds(problem, routing))


def link_seconds(problem: Problem, routing: Ints) -> tuple[Ints, Ints, Floats]:
    """The same as (job, link, seconds)."""
    flow, link = incidence(problem, routing)
    key = problem.flow_job[flow] * problem.link_count + link
    pairs, where = sorting.unique(key)
    seconds = np.bincount(where, problem.flow_bytes[flow], len(pairs))
    job, link = np.divmod(pairs, max(1, problem.link_count))
    return job, link, seconds / problem.capacity[link]


def communication_time(problem: Problem, routing: Ints) -> Floats:
    """t (J,) seconds, see Crossings."""
    return crossings(problem, routing).times(problem.job_count)


def intensity(work: Floats, times: Floats) -> Floats:
    """I = W / t (J,) FLOP/s.  A job without traffic (t = 0) has no use for priority: 0."""
    return np.divide(work, times, out=np.zeros(len(work)), where=times > 0)
