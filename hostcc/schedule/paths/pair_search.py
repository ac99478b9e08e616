"""hostcc's default: the paths with the least predicted loss between pairs of jobs.

Few choices: all routings are tried with pair losses computed once; the best are judged again with
their actual losses. Many: starting from Crux's paths, flows of the pairs that lose most move to
where they lose less, in rounds. A round judges all of them together, and makes only moves whose
links no other move of the round touches. Under heavy overload the pairwise model cannot tell
routings apart, so a round counts only if the predicted throughput rises (throughput.py). Beyond a
light load the result counts only if on Crux's paths neither links are emptier nor jobs slowed down
less by their own flows.
"""

from __future__ import annotations

import math
from itertools import product

import numpy as np

from hostcc.schedule import job_pairs
from hostcc.schedule.intensity import full
from hostcc.schedule.paths import crux, moves, prediction
from hostcc.schedule.paths.fabric import Floats, Ints
from hostcc.schedule.paths.isolated import IsolatedJobs, isolated_jobs
from hostcc.schedule.paths.throughput import throughput
from hostcc.schedule.problem import TINY_S, Problem

MAX_ENUMERATED_ROUTINGS = 1024
"""Routings up to which all are tried."""
MAX_ENUMERATED_CELLS = 1 << 22
"""Routings times jobs times links (or jobs) up to which all are tried."""
MAX_PLACED_CELLS = 1 << 26
"""Links times flows times routings, or times paths, up to which all are tried."""
MAX_CHECKED_ROUTINGS = 12
"""Enumerated routings that are judged with their actual losses."""
WORTH_UNITS = 2.0**36
"""Units into which the cluster's worth is divided, for exact sums."""
MIN_WORTH_UNIT = float(np.finfo(np.float64).tiny)
"""Smallest unit: below it division is inexact or impossible."""
MAX_ROUNDS = 3
MADE_TOGETHER = 1.0, 0.5, 0.1
"""Shares of a round's moves that are tried, the best ones, until they gain."""
MAX_FLOWS_PER_ROUND = 800
"""Flows judged in a round, those whose jobs lose most."""
MIN_GAIN_FRACTION = 1e-9
"""Fraction of the total worth that a gain must exceed."""


def choose(
    problem: Problem,
    reference: IsolatedJobs | None = None,
    start: Ints | None = None,
    most: float | None = None,
) -> Ints:
    """Return the best routing (F,) that is found, wherever flows are now.

    `reference`, `start`: the results of isolated_jobs() and crux(), if known; `most`: the
    throughput of the latter.
    """
    reference = isolated_jobs(problem) if reference is None else reference
    start = crux.crux(problem, reference) if start is None else start
    if not len(start):
        return start
    options = np.diff(problem.table_start)[problem.flow_table]
    jobs = problem.job_count
    if (options > 1).sum() <= MAX_ENUMERATED_ROUTINGS.bit_length() and (
        (routings := math.prod(options.tolist())) <= MAX_ENUMERATED_ROUTINGS
        and routings * jobs * max(jobs, problem.link_count) <= MAX_ENUMERATED_CELLS
        and max(routings * len(start), len(problem.path_ids)) * problem.link_count
        <= MAX_PLACED_CELLS
    ):
        return _enumerate(problem, reference, start, options)
    toll = MIN_GAIN_FRACTION * float(reference.worth.sum())
    found = improve(problem, reference, start, toll, most)
    return start if _worse(problem, reference, found, start) else found


def _worse(problem: Problem, reference: IsolatedJobs, routing: Ints, start: Ints) -> bool:
    """Return whether links are beyond a light load, and fuller than under the routing `start` or
    jobs slowed down more by their own flows."""
    if np.array_equal(routing, start):
        return False
    now, before = (moves.occupancy(problem, None, one) for one in (routing, start))
    load, usual = (moves.mean_peak_load(problem, one) for one in (now, before))
    lost, least = (prediction.self_loss(problem, reference, one.comm) for one in (now, before))
    toll = MIN_GAIN_FRACTION * float(reference.worth.sum())
    return max(load, usual) > moves.LIGHT_LOAD and (load > usual or lost > least + toll)


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


def improve(
    problem: Problem,
    reference: IsolatedJobs,
    start: Ints,
    toll: float | Floats,
    most: float | None = None,
    rounds: int = MAX_ROUNDS,
) -> Ints:
    """Return a routing (F,) of moves from `start`, which are predicted to gain more than their
    tolls.

    `toll`: FLOP/s that a move has to gain; one for all, or (F,) for each flow's moves. `most`: the
    throughput of `start`, if known.
    """
    toll = np.broadcast_to(toll, start.shape)
    best, most = start, throughput(problem, start) if most is None else most
    for _ in range(rounds):
        now = moves.occupancy(problem, reference.period, best)
        loss = prediction.assess(problem, reference, now.comm, now.job, now.starts, now.seconds)
        flows = losing_flows(problem, loss.job_loss)
        if not len(flows):
            break
        tried = moves.trials(problem, reference, now, flows, rough=loss.rough)
        made = moves.independent(problem, best, tried, toll[tried.flow])
        if not made:
            break
        # All of them, or the best, if together they gain too little.
        for share in MADE_TOGETHER:
            some = made[: math.ceil(len(made) * share)]
            routing = best.copy()
            routing[tried.flow[some]] = tried.path[some]
            value = throughput(problem, routing)
            if value > most + toll[tried.flow[some]].sum():
                break
        else:
            break
        best, most = routing, value
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
