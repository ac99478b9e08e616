"""Named methods to choose paths and to order jobs, each behind one interface."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from hostcc.schedule import baseline_orders, order
from hostcc.schedule.intensity import Crossings, communication_time, crossings, intensity
from hostcc.schedule.job_pairs import Pairs, pairs
from hostcc.schedule.pair_loss import IsolatedTimes
from hostcc.schedule.paths import baselines, crux, link_balance, moves, pair_search, throughput
from hostcc.schedule.paths.fabric import from_problem
from hostcc.schedule.problem import Floats, Ints, Problem

Route = Callable[[Problem], Ints]
"""Returns a routing (F,) as path indices."""
Order = Callable[[Problem, Ints], Ints]
"""(problem, routing) -> ranks (J,)."""


def ecmp(problem: Problem) -> Ints:
    """Return the routing by a hash of each flow's name."""
    names = [hashlib.sha256(flow.encode()).digest()[:8] for flow in problem.flow_ids]
    key = np.array([int.from_bytes(name) >> 1 for name in names], np.int64)
    choice = baselines.ecmp(from_problem(problem), problem.flow_table, key)
    return np.asarray(problem.table_start[problem.flow_table] + choice)


def annealing(problem: Problem) -> Ints:
    """Return the routing of Hedera's simulated annealing, starting from ECMP's.

    The target load of a link is what its largest flow needs alone, in seconds of traffic; 200 steps
    per flow, at most 10,000.
    """
    fabric = from_problem(problem)
    if not problem.flow_count:
        return np.zeros(0, np.int64)
    start = ecmp(problem) - problem.table_start[problem.flow_table]
    target = float(problem.flow_bytes.max() / problem.capacity.max(initial=1.0))
    steps = min(10_000, 200 * problem.flow_count)
    found = baselines.anneal(
        fabric, problem.flow_table, problem.flow_bytes, start, target=target, iterations=steps
    )
    return np.asarray(problem.table_start[problem.flow_table] + found)


def stay(problem: Problem) -> Ints:
    """Return the present paths of the flows; those without one are placed by hash."""
    return np.where(problem.flow_path >= 0, problem.flow_path, ecmp(problem))


def isolated_times(problem: Problem, routing: Ints) -> IsolatedTimes:
    """Return every job's times without the other jobs."""
    return IsolatedTimes(problem.compute, problem.comm_start, communication_time(problem, routing))


def mean_load(problem: Problem, found: Crossings, jobs: IsolatedTimes) -> float:
    """Return the mean over jobs of the busiest link that each crosses, seconds of traffic per
    second."""
    job, link = found.job, found.link
    duty = found.seconds / np.maximum(jobs.period[job], 1e-9)
    load = np.bincount(link, duty, problem.link_count)
    worst = np.zeros(problem.job_count)
    np.maximum.at(worst, job, load[link])
    busy = worst[worst > 0]  # none, where all that is sent rounds to nothing
    return float(busy.mean()) if len(busy) else 0.0


class OrderResult(NamedTuple):
    """The order found, and how."""

    rank: Ints
    """(J,)"""
    how: str
    """Explanation for the operator."""
    losses: order.Losses | None = None
    """None: losses were not computed."""


def by_losses(
    problem: Problem,
    found: Crossings,
    worth: Floats,
    met: Pairs,
    followed: order.KnownLosses | None = None,
) -> OrderResult:
    """Return the order of least predicted loss (order.py).

    On busy links the search starts from Crux's order, and that stays unless the other one is
    predicted to serve more work. `followed`: losses that are known from an earlier view.
    """
    jobs = IsolatedTimes(problem.compute, problem.comm_start, found.times(problem.job_count))
    value = intensity(worth, jobs.comm)
    busy = mean_load(problem, found, jobs) > moves.LIGHT_LOAD
    if busy and problem.job_count <= order.MAX_CORRECTED_JOBS:
        value *= baseline_orders.crux_correction(problem, jobs.comm)
    start = baseline_orders.ranks(value)
    lost = order.losses(jobs, met, followed)
    per_second = worth / np.maximum(jobs.period, 1e-9)
    rank = order.best(problem.job_count, lost, per_second, start)
    if busy:
        waiting = found.contended(problem.job_count)
        least, most = (
            throughput.under_order(jobs, per_second, waiting, lost, one) for one in (start, rank)
        )
        if most <= least * (1 + order.MIN_GAIN):
            return OrderResult(start, "order: Crux's, no other is predicted to gain", lost)
    return OrderResult(rank, "order: least predicted loss", lost)


def _by_losses(problem: Problem, routing: Ints) -> Ints:
    found = crossings(problem, routing)
    return by_losses(problem, found, problem.work, pairs(problem, routing)).rank


ROUTES: dict[str, Route] = {
    "hostcc": pair_search.choose,
    "crux": crux.crux,
    "taccl": crux.taccl,
    "maxmin": lambda problem: link_balance.maxmin(problem).routing,
    "balance": lambda problem: link_balance.balance(problem).routing,
    "annealing": annealing,
    "ecmp": ecmp,
    "stay": stay,
}
ORDERS: dict[str, Order] = {
    "hostcc": _by_losses,
    "crux": baseline_orders.crux,
    "intensity": baseline_orders.by_intensity,
    "sincronia": baseline_orders.sincronia,
    "varys": baseline_orders.varys,
    "hash": baseline_orders.by_hash,
}
