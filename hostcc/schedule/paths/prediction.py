"""Predicts what a routing loses, in FLOP/s: to a job's own flows, and to other jobs.

A job loses by itself when its flows share a link and its communication takes longer than on its
best paths. Two jobs that share a link lose the smaller of what either loses below the other
(pair_loss.py): the order of priorities, decided later, can achieve that.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hostcc.schedule import job_pairs
from hostcc.schedule.intensity import Crossings, crossings
from hostcc.schedule.pair_loss import IsolatedTimes, estimate, slowdown
from hostcc.schedule.paths.fabric import Floats, Ints
from hostcc.schedule.paths.isolated import IsolatedJobs
from hostcc.schedule.problem import Problem

MAX_PAIRS_ALL_PHASES = 4000
"""Pairs above which fewer starting points are followed."""
MAX_EXACT_PAIRS = 2000
"""Pairs that meet above which their losses are estimated."""


def pair_losses(
    problem: Problem,
    reference: IsolatedJobs,
    comm: Floats,
    found: job_pairs.Pairs,
    *,
    rough: bool = False,
) -> Floats:
    """Return (N,) FLOP/s that each pair of jobs loses by sharing a link; `comm` (J,) is their t.

    `rough`: use estimates, for very many pairs.
    """
    jobs = IsolatedTimes(problem.compute, problem.comm_start, comm)
    phases = 8 if len(found.one) <= MAX_PAIRS_ALL_PHASES else 4
    lost = []
    for upper, lower, above, below in (
        (found.one, found.other, found.one_seconds, found.other_seconds),
        (found.other, found.one, found.other_seconds, found.one_seconds),
    ):
        if rough:
            slower = estimate(jobs, upper, lower, above, below)
        else:
            slower = slowdown(jobs, upper, lower, above, below, phases)
        lost.append(reference.worth[lower] * _share(slower))
    return np.minimum(lost[0], lost[1])


def _share(slower: Floats) -> Floats:
    """Return the fraction of its rate that a job loses at this slow-down."""
    return np.asarray(slower / (1 + slower))


def self_loss(problem: Problem, reference: IsolatedJobs, comm: Floats) -> float:
    """Return the FLOP/s that jobs lose because their own flows share links."""
    period = np.maximum(problem.compute, problem.comm_start + comm)
    longer = np.maximum(period / reference.period - 1, 0.0)
    return float((reference.worth * _share(longer)).sum())


def meeting_pairs(problem: Problem, job: Ints, starts: Ints, seconds: Floats) -> job_pairs.Pairs:
    """Return the pairs of jobs on links that jobs can fill.

    Link l has the jobs `job[starts[l] : starts[l + 1]]`.
    """
    link = np.repeat(np.arange(problem.link_count), np.diff(starts))
    return _pairs(problem, Crossings(job, link, seconds))


def _pairs(problem: Problem, found: Crossings) -> job_pairs.Pairs:
    waiting = found.contended(problem.job_count)
    return job_pairs.pairs_on_links(waiting.job, waiting.link, waiting.seconds, problem.job_count)


@dataclass(frozen=True)
class Loss:
    """The predicted loss of a routing."""

    total: float
    """FLOP/s."""
    job_loss: Floats
    """(J,) FLOP/s lost by the pairs that each job belongs to."""
    rough: bool
    """Whether losses were estimated, because there were many pairs."""


def assess(
    problem: Problem,
    reference: IsolatedJobs,
    comm: Floats,
    job: Ints,
    starts: Ints,
    seconds: Floats,
) -> Loss:
    """Return the loss of jobs `job[starts[l] : starts[l + 1]]` on links l, with t `comm` (J,)."""
    found = meeting_pairs(problem, job, starts, seconds)
    rough = len(found.one) > MAX_EXACT_PAIRS
    lost = pair_losses(problem, reference, comm, found, rough=rough)
    job_loss: Floats = np.bincount(found.one, lost, problem.job_count).astype(np.float64)
    job_loss += np.bincount(found.other, lost, problem.job_count)
    return Loss(self_loss(problem, reference, comm) + float(lost.sum()), job_loss, rough)


def routing_loss(problem: Problem, reference: IsolatedJobs, routing: Ints) -> float:
    """Return the FLOP/s that a routing (F,) loses, compared with jobs that never meet."""
    found = crossings(problem, routing)
    comm = found.times(problem.job_count)
    lost = pair_losses(problem, reference, comm, _pairs(problem, found))
    return self_loss(problem, reference, comm) + float(lost.sum())
