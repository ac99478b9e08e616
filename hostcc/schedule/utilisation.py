"""GPU utilisation of a cluster under a plan (U_T of Crux, SIGCOMM'24, section 3.1).

Crux maximises the work that all GPUs do in a time T. Here that is divided by the work that the same
jobs would do alone: U = sum of v_j s_j / sum of v_j. s_j is the speed of job j over that alone and
v_j = W_j / T_j its FLOP/s alone; T_j = max(compute, start of communication + t) is its iteration
alone, seconds. Jobs without a known path are left out: their t is unknown.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hostcc.model import JobProfile
from hostcc.schedule import fairness, sorting
from hostcc.schedule import order as orders
from hostcc.schedule.contention_graph import spans
from hostcc.schedule.intensity import full
from hostcc.schedule.job_pairs import Pairs
from hostcc.schedule.link_load import periods
from hostcc.schedule.pair_loss import IsolatedTimes
from hostcc.schedule.plan import Solution
from hostcc.schedule.problem import TINY_S, Floats, Ints

RELIEVED_LOSS = 0.01
"""Predicted fraction of its speed that a job at risk loses at most if it counts as relieved."""

LINKS_AT_ONCE = 16_384
"""Links of flows that are looked at together: of thousands of jobs there are very many."""

Flags = NDArray[np.bool_]


def predicted_speeds(found: Solution) -> Floats:
    """Return (J,) speeds over those alone by the pairwise model; NaN: no path is known."""
    work = found.decision.work
    lost = orders.losses(_alone(found), found.met, None if work is None else work.followed)
    speed = fairness.speeds(found.decision.rank, lost)
    return np.where(found.times > 0, speed, np.nan)


def measured_speeds(found: Solution, jobs: Sequence[JobProfile]) -> Floats:
    """Return (J,) measured speeds over those alone: T_j / measured iteration, at most 1.

    `jobs`: the newest profiles. NaN: no path is known, no iteration was measured, or it is a guess.
    """
    problem = found.problem
    of = {one.job: one.period_s for one in jobs if one.confidence > 0 and one.period_s > 0}
    period = np.array([of.get(name, np.nan) for name in problem.job_ids], np.float64)
    return np.where(found.times > 0, np.minimum(periods(found) / period, 1.0), np.nan)


def values(found: Solution) -> tuple[Floats, bool]:
    """Return (J,) v, and whether it is of work; where no W is known a job counts by its GPUs."""
    problem = found.problem
    value = problem.work / np.maximum(periods(found), TINY_S)
    if value.any():
        return value, True
    return np.maximum(problem.gpus, 1.0), False


def share(value: Floats, speed: Floats) -> float | None:
    """Return U of the jobs whose speed is known (not NaN); None: of none, or none has any v."""
    known = ~np.isnan(speed)
    whole = float(value[known].sum())
    return float(value[known] @ speed[known]) / whole if whole > 0 else None


def at_risk(found: Solution) -> Flags:
    """Return (J,) whether a job could meet another one on a link which they fill together, if its
    flows and the others' took any of their paths."""
    problem = found.problem
    table, link = _reachable(found)
    tables = len(problem.table_start) - 1
    starts = np.searchsorted(table, np.arange(tables + 1))
    asked = np.zeros(problem.link_count)
    for flows in _blocks(problem.flow_job, np.diff(starts)[problem.flow_table]):
        # Each flow may cross each link that one of its table's paths has.
        first, past = starts[problem.flow_table[flows]], starts[problem.flow_table[flows] + 1]
        flow = np.repeat(flows, past - first)
        cell = problem.flow_job[flow] * max(1, problem.link_count) + link[spans(first, past)]
        cells, where = np.unique(cell, return_inverse=True)
        size = np.bincount(where.reshape(-1), problem.flow_bytes[flow], len(cells))
        job, on = np.divmod(cells, max(1, problem.link_count))
        share = size / problem.capacity[on] / np.maximum(found.times[job], TINY_S)
        asked += np.bincount(on, np.minimum(share, 1.0), problem.link_count)
    contested = np.bincount(table, full(asked)[link], tables) > 0
    risky = np.zeros(problem.job_count, np.bool_)
    risky[problem.flow_job[contested[problem.flow_table]]] = True
    return risky


def relieved(risky: Flags, speed: Floats) -> Flags:
    """Return (J,) jobs at risk that by the plan lose at most RELIEVED_LOSS of their speed."""
    return np.asarray(risky & (speed >= 1 - RELIEVED_LOSS))


def losses_to_first(found: Solution, name: str) -> Floats | None:
    """Return (J,) by how much speeds fall, over those alone, while job `name` goes before all.

    None: it is not in the view, or none of its paths is known.
    """
    problem, met, rank = found.problem, found.met, found.decision.rank
    if name not in problem.job_ids or not found.times[job := problem.job_ids.index(name)] > 0:
        return None
    some = (met.one == job) | (met.other == job)
    its = Pairs(met.one[some], met.other[some], met.one_seconds[some], met.other_seconds[some])
    lost = orders.losses(_alone(found), its)
    other = np.where(its.one == job, its.other, its.one)
    below = np.where(its.one == job, lost.other_below, lost.one_below)
    speed = np.nan_to_num(predicted_speeds(found), nan=1.0)
    ahead = rank[other] < rank[job]  # the others are behind it anyway
    fallen = np.zeros(problem.job_count)
    other, below = other[ahead], below[ahead]
    fallen[other] = speed[other] - 1 / (1 / speed[other] + below)
    return fallen


def _blocks(job: Ints, size: Ints) -> list[Ints]:
    """Split flows, given their jobs in order and how many links each may cross, between jobs where
    they come to more than LINKS_AT_ONCE together."""
    return _split(np.arange(len(job)), (size.cumsum() - size)[np.searchsorted(job, job)])


def _split(what: Ints, begun: Ints) -> list[Ints]:
    """Split ascending numbers, given how many links come before each, into those of LINKS_AT_ONCE
    each."""
    return np.split(what, np.flatnonzero(np.diff(begun // LINKS_AT_ONCE)) + 1)


def _alone(found: Solution) -> IsolatedTimes:
    return IsolatedTimes(found.problem.compute, found.problem.comm_start, found.times)


def _reachable(found: Solution) -> tuple[Ints, Ints]:
    """Return the pairs (table, link) where a path of the table has the link, sorted."""
    problem, width = found.problem, max(1, found.problem.link_count)
    begun = problem.path_start[problem.table_start]
    cells = [np.zeros(0, np.int64)]
    for tables in _split(np.arange(len(begun) - 1), begun[:-1]):
        first, past = begun[tables[:1]], begun[tables[-1:] + 1]
        table = np.repeat(tables, np.diff(begun)[tables])
        cells.append(sorting.distinct(table * width + problem.path_links[spans(first, past)]))
    table, link = np.divmod(np.concatenate(cells), width)
    return table, link
