"""hostcc's default: the paths with the least predicted loss between pairs of jobs.

Few choices: all routings are tried on pair losses computed once, and the best of them once
more with the losses that they really have.  Many: from Crux's paths, flows of the pairs that
lose most move to where they lose less, in rounds; a round looks at all of them at once, and
makes only moves whose links no other move of the round touches.  Under heavy overload the
pairwise model cannot tell routings apart, and Crux's paths stay.
"""

from __future__ import annotations

from itertools import product
from math import prod

import numpy as np

from hostcc.schedule import contention
from hostcc.schedule.intensity import full
from hostcc.schedule.paths import crux, moves, prediction
from hostcc.schedule.paths.alone import Alone, alone
from hostcc.schedule.paths.fabric import Floats, Ints
from hostcc.schedule.problem import TINY_S, Problem

ENUMERATED = 1024
"""Routings up to which all are tried."""
CELLS = 1 << 22
"""Routings times jobs times links (or jobs) up to which they are."""
CHECKED = 12
"""Of them, how many are looked at closely."""
PARTS = 2.0**36
LEAST_WORTH = float(np.finfo(np.float64).tiny)
"""Below it division is no longer exact, or not possible."""
ROUNDS = 3
FLOWS = 800
"""Flows looked at in a round, those whose jobs lose most."""
OVERLOAD = 1.5
"""Mean load of jobs' links, in seconds of traffic per second, above which Crux's paths stay."""
GAIN = 1e-9
"""Part of the total worth below which a gain is none."""


def choose(problem: Problem) -> Ints:
    """Routing (F,) with the least predicted loss that is found."""
    reference = alone(problem)
    start = crux.crux(problem, reference)
    if not len(start):
        return start
    if moves.offered(problem, moves.occupancy(problem, reference.period, start)) > OVERLOAD:
        return start
    options = np.diff(problem.table_start)[problem.flow_table]
    jobs = problem.job_count
    if (options > 1).sum() <= ENUMERATED.bit_length() and (
        (routings := prod(options.tolist())) <= ENUMERATED
        and routings * jobs * max(jobs, problem.link_count) <= CELLS
    ):
        return _enumerate(problem, reference, start, options)
    return improve(problem, reference, start)


def _enumerate(problem: Problem, reference: Alone, start: Ints, options: Ints) -> Ints:
    free = np.flatnonzero(options > 1)
    base = problem.table_start[problem.flow_table]
    steps = np.array(list(product(*(range(n) for n in options[free].tolist()))), np.int64)
    routings = np.repeat(base[None, :], len(steps), axis=0)
    routings[:, free] += steps.reshape(len(steps), -1)
    ranked = np.argsort(_nominal(problem, reference, routings), kind="stable")[:CHECKED]
    best, least = start, prediction.loss(problem, reference, start)
    for row in ranked.tolist():
        found = prediction.loss(problem, reference, routings[row])
        if found < least - GAIN * float(reference.worth.sum()):
            best, least = routings[row], found
    return best


def _nominal(problem: Problem, reference: Alone, routings: Ints) -> Floats:
    """(N,) what each routing (N, F) loses, every pair that meets at its usual loss.

    In whole parts of the cluster's worth, so that no sum depends on the order of its parts,
    which is different in the matrix products of different machines.
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
    unit = max(float(reference.worth.sum()) / PARTS, LEAST_WORTH)
    total = np.rint(longer / (1 + longer) * reference.worth / unit).sum(axis=1)
    asked = (seconds / np.maximum(comm, TINY_S)[:, :, None]).sum(axis=1)
    present = ((seconds > 0) & full(asked)[:, None, :]).astype(np.float64)
    meet = (present @ present.transpose(0, 2, 1)) > 0
    one, other = np.triu_indices(jobs, 1)
    pairs = contention.Pairs(one, other, reference.comm[one], reference.comm[other])
    lost = prediction.pair_losses(problem, reference, reference.comm, pairs)
    return np.asarray(total + meet[:, one, other].astype(np.float64) @ np.rint(lost / unit))


def improve(problem: Problem, reference: Alone, start: Ints) -> Ints:
    """Routing (F,) that is predicted to lose no more than `start`."""
    best, least = start, np.inf
    routing, floor = start, GAIN * float(reference.worth.sum())
    for _ in range(ROUNDS + 1):
        now = moves.occupancy(problem, reference.period, routing)
        loss = prediction.assess(problem, reference, now.comm, now.job, now.starts, now.seconds)
        if loss.total >= least - floor:
            break
        best, least = routing, loss.total
        flows = suffering(problem, loss.pain)
        if not len(flows):
            break
        tried = moves.trials(problem, reference, now, flows, rough=loss.rough)
        made = moves.independent(problem, routing, tried, floor)
        if not made:
            break
        routing = routing.copy()
        routing[tried.flow[made]] = tried.path[made]
    return best


def suffering(problem: Problem, pain: Floats) -> Ints:
    """Flows that have a choice, of the jobs that lose most (`pain`, (J,)), FLOWS at most."""
    options = np.diff(problem.table_start)[problem.flow_table]
    flows = np.flatnonzero((options > 1) & (pain[problem.flow_job] > 0))
    return flows[np.argsort(-pain[problem.flow_job[flows]], kind="stable")][:FLOWS]
