"""hostcc's default: the paths with the least predicted loss between pairs of jobs.

Few choices: all routings are tried with pair losses computed once; the best are judged again with
their actual losses. Many: starting from Crux's paths, flows of the pairs that lose most move to
where they lose less, in rounds. A round judges all of them together, and makes only moves whose
links no other move of the round touches. Under heavy overload the pairwise model cannot tell
routings apart, and Crux's paths stay.
"""

from __future__ import annotations

from itertools import product
from math import prod

import numpy as np

from hostcc.schedule import job_pairs
from hostcc.schedule.intensity import full
from hostcc.schedule.paths import crux, moves, prediction
from hostcc.schedule.paths.fabric import Floats, Ints
from hostcc.schedule.paths.isolated import IsolatedJobs, isolated_jobs
from hostcc.schedule.problem import TINY_S, Problem

MAX_ENUMERATED_ROUTINGS = 1024
"""Routings up to which all are tried."""
MAX_ENUMERATED_CELLS = 1 << 22
"""Routings times jobs times links (or jobs) up to which all are tried."""
MAX_CHECKED_ROUTINGS = 12
"""Enumerated routings that are judged with their actual losses."""
WORTH_UNITS = 2.0**36
"""Units into which the cluster's worth is divided, for exact sums."""
MIN_WORTH_UNIT = float(np.finfo(np.float64).tiny)
"""Smallest unit: below it division is inexact or impossible."""
MAX_ROUNDS = 3
MAX_FLOWS_PER_ROUND = 800
"""Flows judged in a round, those whose jobs lose most."""
MAX_MEAN_LOAD = 1.5
"""Mean load of jobs' links, in seconds of traffic per second, above which Crux's paths stay."""
MIN_GAIN_FRACTION = 1e-9
"""Fraction of the total worth that a gain must exceed."""


def choose(problem: Problem) -> Ints:
    """Return the routing (F,) with the least predicted loss that is found."""
    reference = isolated_jobs(problem)
    start = crux.crux(problem, reference)
    if not len(start):
        return start
    if (
        moves.mean_peak_load(problem, moves.occupancy(problem, reference.period, start))
        > MAX_MEAN_LOAD
    ):
        return start
    options = np.diff(problem.table_start)[problem.flow_table]
    jobs = problem.job_count
    if (options > 1).sum() <= MAX_ENUMERATED_ROUTINGS.bit_length() and (
        (routings := prod(options.tolist())) <= MAX_ENUMERATED_ROUTINGS
        and routings * jobs * max(jobs, problem.link_count) <= MAX_ENUMERATED_CELLS
    ):
        return _enumerate(problem, reference, start, options)
    return improve(problem, reference, start)


def _enumerate(problem: Problem, reference: IsolatedJobs, start: Ints, options: Ints) -> Ints:
    free = np.flatnonzero(options > 1)
    base = problem.table_start[problem.flow_table]
    steps = np.array(list(product(*(range(n) for n in options[free].tolist()))), np.int64)
    routings = np.repeat(base[None, :], len(steps), axis=0)
    routings[:, free] += steps.reshape(len(steps), -1)
    ranked = np.argsort(_usual_losses(problem, reference, routings), kind="stable")[
        :MAX_CHECKED_ROUTINGS
    ]
    best, least = start, prediction.routing_loss(problem, reference, start)
    for row in ranked.tolist():
        found = prediction.routing_loss(problem, reference, routings[row])
        if found < least - MIN_GAIN_FRACTION * float(reference.worth.sum()):
            best, least = routings[row], found
    return best


def _usual_losses(problem: Problem, reference: IsolatedJobs, routings: Ints) -> Floats:
    """Return (N,) the loss of each routing (N, F), with every pair that meets at its usual loss.

    In integer units of the cluster's worth, so that no sum depends on the order of its terms, which
    differs in the matrix products of different machines.
    """
    jobs, links = problem.job_count, problem.link_count
    hops = np.diff(problem.path_start)
    on = np.zeros((len(hops), links))
    on[np.repeat(np.arange(len(hops)), hops), problem.path_links] = 1.0
    seconds = np.zeros((len(routings), jobs, links))
    for flow, job in enumerate(problem.flow_job.tolist()):
        seconds[:, job] += on[routings[:, flow]] * problem.flow_bytes[flow]
    seconds /= problem.capacity
    comm = seconds.max(axis=2, initial=0.0)
    period = np.maximum(problem.compute, problem.comm_start + comm)
    longer = np.maximum(period / reference.period - 1, 0.0)
    unit = max(float(reference.worth.sum()) / WORTH_UNITS, MIN_WORTH_UNIT)
    total = np.rint(longer / (1 + longer) * reference.worth / unit).sum(axis=1)
    asked = (seconds / np.maximum(comm, TINY_S)[:, :, None]).sum(axis=1)
    present = ((seconds > 0) & full(asked)[:, None, :]).astype(np.float64)
    meet = (present @ present.transpose(0, 2, 1)) > 0
    one, other = np.triu_indices(jobs, 1)
    pairs = job_pairs.Pairs(one, other, reference.comm[one], reference.comm[other])
    lost = prediction.pair_losses(problem, reference, reference.comm, pairs)
    return np.asarray(total + meet[:, one, other].astype(np.float64) @ np.rint(lost / unit))


def improve(problem: Problem, reference: IsolatedJobs, start: Ints) -> Ints:
    """Return a routing (F,) that is predicted to lose no more than `start`."""
    best, least = start, np.inf
    routing, floor = start, MIN_GAIN_FRACTION * float(reference.worth.sum())
    for _ in range(MAX_ROUNDS + 1):
        now = moves.occupancy(problem, reference.period, routing)
        loss = prediction.assess(problem, reference, now.comm, now.job, now.starts, now.seconds)
        if loss.total >= least - floor:
            break
        best, least = routing, loss.total
        flows = losing_flows(problem, loss.job_loss)
        if not len(flows):
            break
        tried = moves.trials(problem, reference, now, flows, rough=loss.rough)
        made = moves.independent(problem, routing, tried, floor)
        if not made:
            break
        routing = routing.copy()
        routing[tried.flow[made]] = tried.path[made]
    return best


def losing_flows(problem: Problem, job_loss: Floats) -> Ints:
    """Return flows with a choice, of the jobs that lose most (`job_loss`, (J,)).

    At most MAX_FLOWS_PER_ROUND.
    """
    options = np.diff(problem.table_start)[problem.flow_table]
    flows = np.flatnonzero((options > 1) & (job_loss[problem.flow_job] > 0))
    return flows[np.argsort(-job_loss[problem.flow_job[flows]], kind="stable")][
        :MAX_FLOWS_PER_ROUND
    ]
