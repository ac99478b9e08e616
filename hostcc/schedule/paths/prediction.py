"""What a routing is predicted to lose, in FLOP/s: by jobs in their own way, and by each other.

A job loses by itself when its flows share a link and its communication takes longer than on
its best paths.  Two jobs that share a link lose the smaller of what either loses below the
other (pairloss.py): the order of priorities, decided later, can have that.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hostcc.schedule import contention
from hostcc.schedule.intensity import Crossings, crossings
from hostcc.schedule.pairloss import Alone as Lone
from hostcc.schedule.pairloss import estimate, slowdown
from hostcc.schedule.paths.alone import Alone
from hostcc.schedule.paths.fabric import Floats, Ints
from hostcc.schedule.problem import Problem

MANY = 4000
"""Pairs above which fewer starting points are followed."""
ROUGH = 2000
"""Pairs that meet above which their losses are estimated, not followed."""


def pair_losses(
    problem: Problem,
    reference: Alone,
    comm: Floats,
    found: contention.Pairs,
    *,
    rough: bool = False,
) -> Floats:
    """(N,) FLOP/s that each pair of jobs loses by sharing a link; `comm` (J,) their t.

    `rough`: by `estimate`, for very many pairs.
    """
    jobs = Lone(problem.compute, problem.comm_start, comm)
    phases = 8 if len(found.one) <= MANY else 4
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
    """The part of its rate that a job loses when it becomes so much slower."""
    return np.asarray(slower / (1 + slower))


def own(problem: Problem, reference: Alone, comm: Floats) -> float:
    """FLOP/s that jobs lose because their own flows share links."""
    period = np.maximum(problem.compute, problem.comm_start + comm)
    longer = np.maximum(period / reference.period - 1, 0.0)
    return float((reference.worth * _share(longer)).sum())


def meeting(problem: Problem, job: Ints, starts: Ints, seconds: Floats) -> contention.Pairs:
    """The pairs of jobs on links that jobs can fill; those of link l are
    `job[starts[l] : starts[l + 1]]`."""
    link = np.repeat(np.arange(problem.link_count), np.diff(starts))
    return _pairs(problem, Crossings(job, link, seconds))


def _pairs(problem: Problem, found: Crossings) -> contention.Pairs:
    waiting = found.waiting(problem.job_count)
    return contention.on_links(waiting.job, waiting.link, waiting.seconds, problem.job_count)


@dataclass(frozen=True)
class Loss:
    """What a routing loses."""

    total: float
    """FLOP/s."""
    pain: Floats
    """(J,) what the pairs lose that each job is in, FLOP/s."""
    rough: bool
    """Whether the pairs were many, and their losses estimated."""


def assess(
    problem: Problem, reference: Alone, comm: Floats, job: Ints, starts: Ints, seconds: Floats
) -> Loss:
    """What jobs `job[starts[l] : starts[l + 1]]` lose on links l, their t being `comm` (J,)."""
    found = meeting(problem, job, starts, seconds)
    rough = len(found.one) > ROUGH
    lost = pair_losses(problem, reference, comm, found, rough=rough)
    pain: Floats = np.bincount(found.one, lost, problem.job_count).astype(np.float64)
    pain += np.bincount(found.other, lost, problem.job_count)
    return Loss(own(problem, reference, comm) + float(lost.sum()), pain, rough)


def loss(problem: Problem, reference: Alone, routing: Ints) -> float:
    """FLOP/s that a routing (F,) loses against jobs that never meet."""
    found = crossings(problem, routing)
    comm = found.times(problem.job_count)
    lost = pair_losses(problem, reference, comm, _pairs(problem, found))
    return own(problem, reference, comm) + float(lost.sum())
