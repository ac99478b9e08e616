"""GPU intensity I = W / t (Crux, SIGCOMM'24, section 3): FLOP that a second of traffic serves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hostcc.schedule import sorting
from hostcc.schedule.problem import TINY_S, Floats, Ints, Problem

FULL = 1 + 1e-6
"""Part of a link's capacity beyond which it is too small for what is asked of it."""


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

    def asked(self, jobs: int) -> Floats:
        """(N,) the part of each link's capacity that the job takes at most while it sends."""
        return np.asarray(self.seconds / np.maximum(self.times(jobs)[self.job], TINY_S))

    def waiting(self, jobs: int) -> Crossings:
        """Those on links that their jobs together can fill: on others nobody waits for anybody."""
        return self.only(fillable(self.link, self.asked(jobs))[self.link])

    def only(self, some: NDArray[np.bool_]) -> Crossings:
        """Some of the entries."""
        return Crossings(self.job[some], self.link[some], self.seconds[some])


def full(asked: Floats) -> NDArray[np.bool_]:
    """Whether so much, of all jobs together and in parts of a link's capacity, fills the link."""
    return np.asarray(asked > FULL)


def fillable(link: Ints, asked: Floats) -> NDArray[np.bool_]:
    """(Up to the last link,) whether jobs can fill a link, of which each takes `asked` (N,) of
    the capacity of `link` (N,) at most: its bytes there in the time that its slowest link needs.

    A job that shares a link of 1 Gbit/s, and sends over one of 80 Mbit/s, keeps nobody waiting
    on the first.
    """
    return full(np.asarray(np.bincount(link, asked), np.float64))


def crossings(problem: Problem, routing: Ints) -> Crossings:
    """Of a routing (F,)."""
    return Crossings(*link_seconds(problem, routing))


def crossed(problem: Problem, flow: Ints, link: Ints) -> Crossings:
    """Of the flows that cross links, as incidence() has them."""
    return Crossings(*_summed(problem, flow, link))


def link_seconds(problem: Problem, routing: Ints) -> tuple[Ints, Ints, Floats]:
    """The same as (job, link, seconds)."""
    return _summed(problem, *incidence(problem, routing))


def _summed(problem: Problem, flow: Ints, link: Ints) -> tuple[Ints, Ints, Floats]:
    """By job and link, of flows that cross links."""
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
    least = np.maximum(times, TINY_S)
    return np.divide(work, least, out=np.zeros(len(work)), where=times > 0)
