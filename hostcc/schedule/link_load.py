"""What jobs offer the links of their planned paths."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hostcc.schedule import sorting
from hostcc.schedule.intensity import crossings, fillable
from hostcc.schedule.plan import Solution
from hostcc.schedule.problem import TINY_S, Floats, Ints


@dataclass(frozen=True)
class LinkLoads:
    """Loads by job and link, as if nobody waited: one entry for each job that crosses a link."""

    job: Ints
    """(N,)"""
    link: Ints
    """(N,)"""
    load: Floats
    """(N,) seconds of traffic at full capacity per second."""
    total: Floats
    """(L,) the sum on each link."""
    jobs: Ints
    """(L,) how many jobs cross each link."""
    full: NDArray[np.bool_]
    """(L,) whether the jobs can fill the link together while they send, so that one may wait."""

    def entries(self, link: int) -> slice:
        """Return the entries of one link; entries are sorted by link."""
        first, past = np.searchsorted(self.link, [link, link + 1])
        return slice(int(first), int(past))


def periods(found: Solution) -> Floats:
    """Return (J,) seconds of an iteration alone, on the planned paths."""
    problem = found.problem
    return np.asarray(np.maximum(problem.compute, problem.comm_start + found.times))


def link_loads(found: Solution) -> LinkLoads:
    """Return the loads of a solution's routing."""
    problem = found.problem
    crossed = crossings(problem, found.decision.routing)
    asked = crossed.asked(problem.job_count)
    by_link = sorting.order(crossed.link)
    job, link = crossed.job[by_link], crossed.link[by_link]
    load = crossed.seconds[by_link] / np.maximum(periods(found)[job], TINY_S)
    count = problem.link_count
    full = np.zeros(count, np.bool_)
    up_to = fillable(crossed.link, asked)
    full[: len(up_to)] = up_to
    total = np.asarray(np.bincount(link, load, count), np.float64)
    return LinkLoads(job, link, load, total, np.bincount(link, minlength=count), full)
