"""GPU intensity I = W / t (Crux, SIGCOMM'24, section 3): FLOP for each second of traffic."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hostcc.schedule import sorting
from hostcc.schedule.problem import TINY_S, Floats, Ints, Problem

FULL = 1 + 1e-6
"""Share of a link's capacity above which the demand on it exceeds it."""


def incidence(problem: Problem, routing: Ints) -> tuple[Ints, Ints]:
    """Return every (flow, link) crossing of a routing (F,), as two arrays of equal length."""
    first = problem.path_start[routing]
    count = problem.path_start[routing + 1] - first
    flow = np.repeat(np.arange(len(routing)), count)
    step = np.arange(len(flow)) - np.repeat(np.cumsum(count) - count, count)
    return flow, problem.path_links[np.repeat(first, count) + step]


@dataclass(frozen=True)
class Crossings:
    """Load that each job puts on each link per iteration: one entry per job and link, in this
    order."""

    job: Ints
    link: Ints
    seconds: Floats
    """Seconds at the link's full capacity."""

    def times(self, jobs: int) -> Floats:
        """Return t (J,) seconds: the longest that any link needs for the job's traffic alone."""
        times = np.zeros(jobs)
        np.maximum.at(times, self.job, self.seconds)
        return times

    def asked(self, jobs: int) -> Floats:
        """Return (N,) the share of the link's capacity that the job takes while it sends."""
        return np.asarray(self.seconds / np.maximum(self.times(jobs)[self.job], TINY_S))

    def contended(self, jobs: int) -> Crossings:
        """Return the entries on links that their jobs together can fill; on others nobody waits."""
        return self.only(fillable(self.link, self.asked(jobs))[self.link])

    def only(self, some: NDArray[np.bool_]) -> Crossings:
        """Return some of the entries."""
        return Crossings(self.job[some], self.link[some], self.seconds[some])


def full(asked: Floats) -> NDArray[np.bool_]:
    """Return whether the summed shares of capacity `asked` fill a link."""
    return np.asarray(asked > FULL)


def fillable(link: Ints, asked: Floats) -> NDArray[np.bool_]:
    """Return (up to the last link,) whether jobs can fill a link.

    Each takes at most `asked` (N,) of the capacity of `link` (N,): its bytes there in the time that
    its slowest link needs. A job that sends over a link of 80 Mbit/s delays nobody on another link
    of 1 Gbit/s.
    """
    return full(np.asarray(np.bincount(link, asked), np.float64))


def crossings(problem: Problem, routing: Ints) -> Crossings:
    """Return the crossings of a routing (F,)."""
    return Crossings(*link_seconds(problem, routing))


def crossed(problem: Problem, flow: Ints, link: Ints) -> Crossings:
    """Return the crossings of these (flow, link) pairs, as incidence() returns them."""
    return Crossings(*_summed(problem, flow, link))


def link_seconds(problem: Problem, routing: Ints) -> tuple[Ints, Ints, Floats]:
    """Return the crossings of a routing as arrays (job, link, seconds)."""
    return _summed(problem, *incidence(problem, routing))


def _summed(problem: Problem, flow: Ints, link: Ints) -> tuple[Ints, Ints, Floats]:
    """By job and link, of flows that cross links."""
    key = problem.flow_job[flow] * problem.link_count + link
    pairs, where = sorting.unique(key)
    seconds = np.bincount(where, problem.flow_bytes[flow], len(pairs))
    job, link = np.divmod(pairs, max(1, problem.link_count))
    return job, link, seconds / problem.capacity[link]


def communication_time(problem: Problem, routing: Ints) -> Floats:
    """Return t (J,) in seconds, see Crossings.times."""
    return crossings(problem, routing).times(problem.job_count)


def intensity(work: Floats, times: Floats) -> Floats:
    """Return I = W / t (J,) in FLOP/s; 0 for jobs without traffic, which need no priority."""
    least = np.maximum(times, TINY_S)
    return np.divide(work, least, out=np.zeros(len(work)), where=times > 0)
