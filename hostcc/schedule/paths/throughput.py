"""Predicts how much work jobs get done under a routing, also where links are overloaded.

Jobs are served by GPU intensity, as under strict priorities. A job runs at most as fast as the
pairwise losses to the jobs above it allow (pair_loss.estimate), and as fast as they leave capacity
on each of its links. The first limit counts bursts that collide, the second one links that are
offered more than they carry, which pairs of jobs do not show.

A job's speed follows from the speeds above it. All are computed together in sweeps: after n of them
the first n jobs on every link are exact, and those below lie between the values of two sweeps. On
random views at loads of 0.7 to 3 the sum was within 1 % of the one that is computed job by job.
"""

from __future__ import annotations

import numpy as np

from hostcc.schedule import sorting
from hostcc.schedule.baseline_orders import ranks
from hostcc.schedule.intensity import Crossings, crossings, intensity
from hostcc.schedule.job_pairs import pairs_on_links
from hostcc.schedule.pair_loss import IsolatedTimes, estimate
from hostcc.schedule.problem import TINY_S, Floats, Ints, Problem

MAX_SWEEPS = 8
MAX_PAIRS = 20_000
"""Pairs of jobs that are considered; if links have more, those that follow each other closely."""


def throughput(problem: Problem, routing: Ints) -> float:
    """Return the FLOP/s of all jobs together, times their owners' weights, under a routing (F,)."""
    found = crossings(problem, routing)
    jobs = problem.job_count
    times = IsolatedTimes(problem.compute, problem.comm_start, found.times(jobs))
    period = np.maximum(times.period, TINY_S)
    work = problem.work * problem.weight
    speed = _speeds(times, period, ranks(intensity(work, times.comm)), found.contended(jobs))
    return float((work / period * speed).sum())


def _speeds(times: IsolatedTimes, period: Floats, rank: Ints, waiting: Crossings) -> Floats:
    """Return (J,) the speed of each job as a fraction of that alone; `rank` (J,), 0 first."""
    jobs = len(rank)
    # Jobs are named by their rank from here on: the smaller number goes first.
    named = np.argsort(rank, kind="stable")
    by = sorting.order(rank[waiting.job])
    by = by[sorting.order(waiting.link[by])]
    job, link, seconds = rank[waiting.job[by]], waiting.link[by], waiting.seconds[by]
    met = pairs_on_links(job, link, seconds, jobs, MAX_PAIRS)
    upper, lower = met.one, met.other
    lost = estimate(times, named[upper], named[lower], met.one_seconds, met.other_seconds)
    share = seconds / period[named[job]]
    first = np.searchsorted(link, link)
    speed = np.ones(jobs)
    for sweep in range(MAX_SWEEPS):
        limit = 1 / (1 + np.bincount(lower, lost * speed[upper], jobs))
        taken = share * speed[job]
        before = np.cumsum(taken) - taken
        left = np.maximum(1 - (before - before[first]), 0.0)
        fits = np.divide(left, share, out=np.ones(len(share)), where=share > left)
        np.minimum.at(limit, job, fits)
        if np.array_equal(limit, speed):
            break
        # Speeds of two sweeps lie on both sides of the result.
        speed = limit if sweep < 2 else (speed + limit) / 2
    speeds = np.empty(jobs)
    speeds[named] = speed
    return speeds
