"""The named alternatives: ways to choose paths and to order jobs, each behind one interface."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from hostcc.schedule import baselines_order, order
from hostcc.schedule.contention import Pairs, pairs
from hostcc.schedule.intensity import Crossings, communication_time, crossings, intensity
from hostcc.schedule.pairloss import Alone
from hostcc.schedule.paths import baselines, crux, pair_search
from hostcc.schedule.paths.fabric import from_problem
from hostcc.schedule.problem import Floats, Ints, Problem

Route = Callable[[Problem], Ints]
"""A routing (F,) as path indices."""
Order = Callable[[Problem, Ints], Ints]
"""(problem, routing) -> ranks (J,)."""


def ecmp(problem: Problem) -> Ints:
    """Where a hash of its name sends each flow."""
    names = [hashlib.sha256(flow.encode()).digest()[:8] for flow in problem.flow_ids]
    key = np.array([int.from_bytes(name) >> 1 for name in names], np.int64)
    choice = baselines.ecmp(from_problem(problem), problem.flow_table, key)
    return np.asarray(problem.table_start[problem.flow_table] + choice)


def annealing(problem: Problem) -> Ints:
    """Simulated annealing as in Hedera, from ECMP's paths: no link above what its largest flow
    needs alone, in seconds of traffic; 200 steps a flow, 10,000 at most."""
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
    """Where the flows are already; those that are nowhere, by hash."""
    return np.where(problem.flow_path >= 0, problem.flow_path, ecmp(problem))


def alone(problem: Problem, routing: Ints) -> Alone:
    """Every job without the others."""
    return Alone(problem.compute, problem.comm_start, communication_time(problem, routing))


def overloaded(problem: Problem, found: Crossings, jobs: Alone) -> bool:
    """Whether the links that jobs wait for are offered far more than they can carry."""
    job, link = found.job, found.link
    if not len(job):
        return False
    duty = found.seconds / np.maximum(jobs.period[job], 1e-9)
    load = np.bincount(link, duty, problem.link_count)
    worst = np.zeros(problem.job_count)
    np.maximum.at(worst, job, load[link])
    return bool(worst[worst > 0].mean() > order.OVERLOAD)


@dataclass(frozen=True)
class OrderResult:
    """hostcc's order."""

    rank: Ints
    """(J,)"""
    how: str
    """For a person."""
    losses: order.Losses | None = None
    """None: not asked."""


def by_losses(
    problem: Problem,
    found: Crossings,
    worth: Floats,
    met: Pairs,
    followed: order.KnownLosses | None = None,
) -> OrderResult:
    """From the losses of the pairs that meet (order.py); under overload, by intensity.
    `followed`: what is known of them."""
    jobs = Alone(problem.compute, problem.comm_start, found.times(problem.job_count))
    start = baselines_order.ranks(intensity(worth, jobs.comm))
    if overloaded(problem, found, jobs):
        how = "order: by intensity, links are offered far more than they carry"
        return OrderResult(start, how)
    lost = order.losses(jobs, met, followed)
    per_second = worth / np.maximum(jobs.period, 1e-9)
    rank = order.best(problem.job_count, lost, per_second, start)
    return OrderResult(rank, "order: least predicted loss", lost)


def _by_losses(problem: Problem, routing: Ints) -> Ints:
    found = crossings(problem, routing)
    return by_losses(problem, found, problem.work, pairs(problem, routing)).rank


ROUTES: dict[str, Route] = {
    "hostcc": pair_search.choose,
    "crux": crux.crux,
    "taccl": crux.taccl,
    "annealing": annealing,
    "ecmp": ecmp,
    "stay": stay,
}
ORDERS: dict[str, Order] = {
    "hostcc": _by_losses,
    "crux": baselines_order.crux,
    "intensity": baselines_order.by_intensity,
    "sincronia": baselines_order.sincronia,
    "varys": baselines_order.varys,
    "hash": baselines_order.by_hash,
}
