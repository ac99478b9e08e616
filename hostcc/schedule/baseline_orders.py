"""Priority orders of other schedulers, for comparison: ranks (J,), 0 first, ties by job name."""

from __future__ import annotations

import hashlib

import numpy as np

from hostcc.schedule.correction import correction, reference_job
from hostcc.schedule.intensity import communication_time, intensity, link_seconds
from hostcc.schedule.problem import Floats, Ints, Problem


def ranks(score: Floats) -> Ints:
    """Return ranks by falling score, equal scores in the order of the jobs' names."""
    rank = np.empty(len(score), np.int64)
    rank[np.argsort(-score, kind="stable")] = np.arange(len(score))
    return rank


def by_hash(problem: Problem, routing: Ints) -> Ints:  # noqa: ARG001
    """Return a pseudo-random order that is the same everywhere: by a hash of the job's name."""
    names = [hashlib.sha256(f"rank {job}".encode()).digest()[:6] for job in problem.job_ids]
    return ranks(np.array([float(int.from_bytes(name)) for name in names]))


def by_intensity(problem: Problem, routing: Ints) -> Ints:
    """Return the order by GPU intensity W / t alone."""
    return ranks(intensity(problem.work, communication_time(problem, routing)))


def crux_priority(problem: Problem, routing: Ints) -> Floats:
    """Return P = k I (J,) in FLOP/s (Crux, section 4.2); the reference is the job with the most
    traffic."""
    times = communication_time(problem, routing)
    return np.asarray(crux_correction(problem, times) * intensity(problem.work, times))


def crux_correction(problem: Problem, times: Floats) -> Floats:
    """Return k (J,), a pure number; `times` (J,): t in seconds."""
    traffic: Floats = np.zeros(problem.job_count)
    np.add.at(traffic, problem.flow_job, problem.flow_bytes)
    return correction(problem.compute, problem.comm_start, times, reference_job(traffic))


def crux(problem: Problem, routing: Ints) -> Ints:
    """Return Crux's order, by P = k I."""
    return ranks(crux_priority(problem, routing))


def varys(problem: Problem, routing: Ints) -> Ints:
    """Return the smallest effective bottleneck first (SEBF; Varys, SIGCOMM'14, section 5.1)."""
    return ranks(-communication_time(problem, routing))


def sincronia(problem: Problem, routing: Ints) -> Ints:
    """Return the order of bottleneck-select-scale-iterate (Sincronia, SIGCOMM'18, algorithm 1).

    All weights start at 1. The job with the least weight for its load on the busiest link goes
    last; the others' weights there shrink by their own share of that load.
    """
    job, link, seconds = link_seconds(problem, routing)
    load: Floats = np.zeros(problem.link_count)
    np.add.at(load, link, seconds)
    left = np.bincount(link, minlength=problem.link_count)
    weight = np.ones(problem.job_count)
    placed = np.zeros(problem.job_count, np.bool_)
    order = np.argsort(link, kind="stable")
    starts = np.searchsorted(link[order], np.arange(problem.link_count + 1))
    by_job = np.searchsorted(job, np.arange(problem.job_count + 1))
    rank = np.empty(problem.job_count, np.int64)
    idle = np.flatnonzero(by_job[1:] == by_job[:-1])
    placed[idle] = True
    last = problem.job_count - 1
    rank[idle[::-1]] = last - np.arange(len(idle))
    for place in range(last - len(idle), -1, -1):
        # Beside a much greater load that is gone, rounding leaves none of a small one.
        busiest = int(np.argmax(np.where(left > 0, load, -np.inf)))
        here = order[starts[busiest] : starts[busiest + 1]]
        here = here[~placed[job[here]]]
        share = weight[job[here]] / seconds[here]
        pick = int(np.argmin(share))
        weight[job[here]] = np.maximum(weight[job[here]] - share[pick] * seconds[here], 0.0)
        chosen = int(job[here[pick]])
        rank[chosen], placed[chosen] = place, True
        own = slice(by_job[chosen], by_job[chosen + 1])
        left[link[own]] -= 1
        load[link[own]] -= seconds[own]
        load[link[own]] = np.where(load[link[own]] < 1e-12 * seconds[own], 0, load[link[own]])
    return rank
