"""Predicts how much work jobs get done under a routing and an order, also on overloaded links.

Jobs are served by strict priorities: in the order of GPU intensity, or in one that is given. A job
runs at most as fast as the pairwise losses to the jobs above it allow, and as fast as they leave
capacity on each of its links. The first limit counts bursts that collide, the second one links that
are offered more than they carry, which pairs of jobs do not show.

A job's speed follows from the speeds above it. All are computed together in sweeps: after n of them
the first n jobs on every link are exact, and those below lie between the values of two sweeps. On
random views at loads of 0.7 to 3 the sum was within 1 % of the one that is computed job by job.
Orders differ by less than that, so they are compared after many more sweeps.
"""

from __future__ import annotations

import numpy as np

from hostcc.schedule import sorting
from hostcc.schedule.baseline_orders import ranks
from hostcc.schedule.intensity import Crossings, crossings, intensity
from hostcc.schedule.job_pairs import pairs_on_links
from hostcc.schedule.order import Losses
from hostcc.schedule.pair_loss import IsolatedTimes, estimate
from hostcc.schedule.problem import TINY_S, Floats, Ints, Problem

ROUTING_SWEEPS, ORDER_SWEEPS = 2, 64
"""Sweeps whose speeds are taken as they are: to compare routings, and orders."""
AVERAGED_SWEEPS = 6
"""Further ones, each averaged with the last."""
MAX_PAIRS = 20_000
"""Pairs of jobs that are considered; if links have more, those that follow each other closely."""


def throughput(problem: Problem, routing: Ints) -> float:
    """Return the FLOP/s of all jobs together, times their owners' weights, under a routing (F,).

    Jobs are ordered by intensity, and their losses are estimated.
    """
    found = crossings(problem, routing)
    jobs = problem.job_count
    times = IsolatedTimes(problem.compute, problem.comm_start, found.times(jobs))
    work = problem.work * problem.weight
    rank, waiting = ranks(intensity(work, times.comm)), found.contended(jobs)
    # Jobs are named by their rank: the smaller number goes first.
    named = np.argsort(rank, kind="stable")
    job, link, seconds = _by_rank(rank, waiting)
    met = pairs_on_links(job, link, seconds, jobs, MAX_PAIRS)
    upper, lower = met.one, met.other
    lost = estimate(times, named[upper], named[lower], met.one_seconds, met.other_seconds)
    speed = _speeds(times, rank, waiting, (upper, lower, lost), ROUTING_SWEEPS)
    return float((work / np.maximum(times.period, TINY_S) * speed).sum())


def under_order(
    times: IsolatedTimes, worth: Floats, waiting: Crossings, lost: Losses, rank: Ints
) -> float:
    """Return the FLOP/s of all jobs together in the order of the ranks (J,).

    `worth` (J,): FLOP/s of each job alone. `waiting`: crossings of the links that jobs can fill.
    """
    below = np.where(rank[lost.one] < rank[lost.other], lost.other_below, lost.one_below)
    some = np.flatnonzero(below > 0)  # in most pairs nobody loses
    one, other = rank[lost.one[some]], rank[lost.other[some]]
    pairs = np.minimum(one, other), np.maximum(one, other), below[some]
    del below  # megabytes
    speed = _speeds(times, rank, waiting, pairs, ORDER_SWEEPS)
    return float((worth * speed).sum())


def _by_rank(rank: Ints, waiting: Crossings) -> tuple[Ints, Ints, Floats]:
    """Return the crossings by link, then rank: rank of the job, link, seconds."""
    by = sorting.order(rank[waiting.job])
    by = by[sorting.order(waiting.link[by])]
    return rank[waiting.job[by]], waiting.link[by], waiting.seconds[by]


def _speeds(
    times: IsolatedTimes,
    rank: Ints,
    waiting: Crossings,
    pairs: tuple[Ints, Ints, Floats],
    sweeps: int,
) -> Floats:
    """Return (J,) the speed of each job as a fraction of that alone; `rank` (J,), 0 first.

    `pairs`: ranks of the upper and of the lower job, loss of the lower one. `sweeps`: whose speeds
    are taken as they are.
    """
    jobs = len(rank)
    job, link, seconds = _by_rank(rank, waiting)
    upper, lower, lost = pairs
    period = np.empty(jobs)
    period[rank] = np.maximum(times.period, TINY_S)
    share = seconds / period[job]
    first = np.searchsorted(link, link)
    speed = np.ones(jobs)
    for sweep in range(sweeps + AVERAGED_SWEEPS):
        limit = 1 / (1 + np.bincount(lower, lost * speed[upper], jobs))
        taken = share * speed[job]
        before = np.cumsum(taken) - taken
        left = np.maximum(1 - (before - before[first]), 0.0)
        fits = np.divide(left, share, out=np.ones(len(share)), where=share > left)
        np.minimum.at(limit, job, fits)
        if np.array_equal(limit, speed):
            break
        # Speeds of two sweeps lie on both sides of the result.
        speed = limit if sweep < sweeps else (speed + limit) / 2
    return speed[rank]
