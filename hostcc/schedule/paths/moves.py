"""Moves of flows between paths, judged by what their jobs would lose to those they then meet.

All moves are judged together against the present routing. So only moves that touch different links
may be made together.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hostcc.schedule import job_pairs, sorting
from hostcc.schedule.intensity import fillable, link_seconds
from hostcc.schedule.paths import fabric as fabrics
from hostcc.schedule.paths import prediction
from hostcc.schedule.paths.fabric import Floats, Ints
from hostcc.schedule.paths.isolated import IsolatedJobs
from hostcc.schedule.problem import TINY_S, Problem

MAX_TRIED_PATHS = 6
"""Paths that a flow is tried on, the least loaded ones."""
LIGHT_LOAD = 0.7
"""Mean peak load up to which predictions hold. On fuller links jobs lose more than predicted."""
MAX_MET = 1 << 21
"""Jobs on the links of tried paths, in all, up to which moves are judged; the flows that are then
left are not tried."""
MAX_EXACT_PAIRS = 1 << 18
"""Pairs of jobs that moves may bring together up to which their losses are not estimated."""
MET_AT_ONCE = 1 << 18
"""Jobs on the links of paths that are judged together: each takes some hundred bytes for that."""


@dataclass(frozen=True)
class Occupancy:
    """The jobs on each link under a routing."""

    routing: Ints
    """(F,)"""
    job: Ints
    """Link l has the jobs in entries `starts[l] .. starts[l + 1]`."""
    starts: Ints
    seconds: Floats
    """Seconds of traffic per iteration, of each entry."""
    load: Floats
    """(L,) seconds of traffic per second."""
    comm: Floats
    """(J,) t of each job, seconds."""


def occupancy(problem: Problem, period: Floats | None, routing: Ints) -> Occupancy:
    """Return the occupancy; `period` (J,) seconds, by default that of each job alone, so routed."""
    job, link, seconds = link_seconds(problem, routing)
    comm = np.zeros(problem.job_count)
    np.maximum.at(comm, job, seconds)
    if period is None:
        period = np.maximum(np.maximum(problem.compute, problem.comm_start + comm), TINY_S)
    load = np.bincount(link, seconds / period[job], problem.link_count).astype(np.float64)
    by = sorting.order(link)
    starts = np.searchsorted(link[by], np.arange(problem.link_count + 1))
    return Occupancy(routing, job[by], starts, seconds[by], load, comm)


def mean_peak_load(problem: Problem, now: Occupancy) -> float:
    """Return the mean over jobs of the most loaded link each crosses, seconds of traffic per
    second."""
    if not len(now.job):
        return 0.0
    highest = np.zeros(problem.job_count)
    np.maximum.at(highest, now.job, np.repeat(now.load, np.diff(now.starts)))
    present = np.bincount(now.job, minlength=problem.job_count) > 0
    return float(highest[present].mean())


@dataclass(frozen=True)
class Trials:
    """Paths that flows are tried on, (M,); each flow's first is its present one."""

    flow: Ints
    path: Ints
    cost: Floats
    """FLOP/s that the flow's job loses to the jobs on that path, and to its own flows."""

    def gain(self) -> Floats:
        """Return (M,) what moving there saves."""
        first = np.flatnonzero(np.r_[True, self.flow[1:] != self.flow[:-1]])
        present = np.repeat(self.cost[first], np.diff(np.r_[first, len(self.flow)]))
        return np.asarray(present - self.cost)


def trials(
    problem: Problem, reference: IsolatedJobs, now: Occupancy, flows: Ints, *, rough: bool
) -> Trials:
    """Judge the moves of `flows` to their least loaded paths; of the first ones only, if they would
    meet very many jobs there."""
    flow, path = candidates(problem, now, flows)
    row, link = _crossings(problem, path)
    met = np.bincount(row, np.diff(now.starts)[link], len(flow)).cumsum()
    if len(flow) and met[-1] > MAX_MET:
        last = np.flatnonzero(np.append(flow[1:] != flow[:-1], np.True_))
        kept = last[max(0, int(np.searchsorted(met[last], MAX_MET)) - 1)] + 1
        flow, path, met = flow[:kept], path[:kept], met[:kept]
    pairs = min(int(met[-1]) if len(met) else 0, problem.job_count**2 // 2)
    rough = rough or pairs > MAX_EXACT_PAIRS
    # Exact losses depend on how many there are, so they are computed together.
    part = (met // MET_AT_ONCE if rough else np.zeros(len(met))).astype(np.int64)
    each = np.split(np.arange(len(flow)), np.flatnonzero(np.diff(part)) + 1)
    cost = [costs(problem, reference, now, flow[one], path[one], rough=rough) for one in each]
    return Trials(flow, path, np.concatenate(cost))


def independent(problem: Problem, routing: Ints, tried: Trials, floor: float | Floats) -> list[int]:
    """Return entries of `tried` that gain more than `floor`, best first, which can be made
    together.

    No two change the same link, and none is of a flow twice. `floor`: one for all, or (M,).
    """
    gain = tried.gain()
    worthy = np.flatnonzero(gain > floor)
    busy: set[int] = set()
    done: set[int] = set()
    made = []
    rows = worthy[np.argsort(-gain[worthy], kind="stable")]
    flows = tried.flow[rows]
    ways = [_spans(problem, paths) for paths in (routing[flows], tried.path[rows])]
    for row, flow, here, there in zip(rows.tolist(), flows.tolist(), *ways, strict=True):
        if flow in done:
            continue
        old, new = (set(problem.path_links[span].tolist()) for span in (here, there))
        if busy.isdisjoint(old ^ new):
            busy |= old | new
            done.add(flow)
            made.append(row)
    return made


def _spans(problem: Problem, paths: Ints) -> list[slice]:
    """Return where the links of each path are stored."""
    first, last = problem.path_start[paths].tolist(), problem.path_start[paths + 1].tolist()
    return list(map(slice, first, last))


def candidates(problem: Problem, now: Occupancy, flows: Ints) -> tuple[Ints, Ints]:
    """Return (M,) flows and paths to try: each flow's present path, then the least loaded ones."""
    tables, at = np.unique(problem.flow_table[flows], return_inverse=True)
    fabric = fabrics.from_problem(problem, tables)
    load = np.append(now.load, [0.0, np.inf])
    busiest = load[fabric.table].max(axis=2, initial=0.0)
    slots = np.argsort(busiest, axis=1, kind="stable")[:, :MAX_TRIED_PATHS][at.reshape(-1)]
    present = now.routing[flows, None] if len(flows) else np.zeros((0, 1), np.int64)
    start = problem.table_start[problem.flow_table[flows]]
    count = problem.table_start[problem.flow_table[flows] + 1] - start
    tried = start[:, None] + slots
    kept = (slots < count[:, None]) & (tried != present)
    paths = np.concatenate([present, tried], axis=1)
    kept = np.concatenate([np.ones_like(present, np.bool_), kept], axis=1)
    return np.repeat(flows, kept.sum(axis=1)), paths[kept]


def costs(
    problem: Problem,
    reference: IsolatedJobs,
    now: Occupancy,
    flow: Ints,
    path: Ints,
    *,
    rough: bool,
) -> Floats:
    """Return (M,) what each flow's job loses to other jobs on each path, on links that they can
    fill.

    A second flow of the same job on a link counts by how much it slows the job down.
    """
    crossing, at = _crossings(problem, path)
    link_job, starts, amount = now.job, now.starts, now.seconds
    count = starts[at + 1] - starts[at]
    which = np.repeat(np.arange(len(at)), count)
    row = crossing[which]
    index = np.repeat(starts[at], count) + (np.arange(count.sum()) - _before(count))
    mine, theirs = problem.flow_job[flow[row]], link_job[index]
    own = mine == theirs
    cost = np.zeros(len(flow))
    # What the flow adds to a link: nothing where it is already, as on its host's.
    here = fabrics.links_of(problem, now.routing[flow])
    size = problem.flow_bytes[flow[crossing]] / problem.capacity[at]
    size[(here[crossing] == at[:, None]).any(axis=1)] = 0.0
    # Own flows on the link: the job's communication takes that much longer.
    extra = amount[index[own]] + size[which[own]]
    longer = np.maximum(problem.comm_start[mine[own]] + extra, problem.compute[mine[own]])
    slower = np.maximum(longer / reference.period[mine[own]] - 1, 0.0)
    np.maximum.at(cost, row[own], reference.worth[mine[own]] * slower / (1 + slower))
    # Others: each job once per path, on links that together they can fill.
    others = np.flatnonzero(~own)
    afterwards = size + np.bincount(which[own], amount[index[own]], len(at))
    its = afterwards / np.maximum(now.comm[problem.flow_job[flow[crossing]]], TINY_S)
    asked = amount[index[others]] / np.maximum(now.comm[theirs[others]], TINY_S)
    link = np.concatenate([np.arange(len(at)), which[others]])
    wait = fillable(link, np.concatenate([np.minimum(its, 1.0), asked]))
    others = others[wait[which[others]]]
    key = np.sort(row[others] * problem.job_count + theirs[others])
    key = key[np.append(True, key[1:] != key[:-1])] if len(key) else key
    tried, other = np.divmod(key, max(1, problem.job_count))
    job = problem.flow_job[flow[tried]]
    low, high = np.minimum(job, other), np.maximum(job, other)
    pairs, where = sorting.unique(low * problem.job_count + high)
    one, two = np.divmod(pairs, max(1, problem.job_count))
    usual = np.maximum(now.comm, TINY_S)
    met = job_pairs.Pairs(one, two, usual[one], usual[two])
    lost = prediction.pair_losses(problem, reference, now.comm, met, rough=rough)
    return np.asarray(cost + np.bincount(tried, lost[where], len(flow)))


def _crossings(problem: Problem, path: Ints) -> tuple[Ints, Ints]:
    """Return every (row of `path`, link on it)."""
    first = problem.path_start[path]
    count = problem.path_start[path + 1] - first
    row = np.repeat(np.arange(len(path)), count)
    return row, problem.path_links[np.repeat(first, count) + np.arange(len(row)) - _before(count)]


def _before(count: Ints) -> Ints:
    return np.repeat(np.cumsum(count) - count, count)
