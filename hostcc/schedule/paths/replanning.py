"""The next routing of flows that have paths: as good as Crux's and one from nothing, few moves.

The present routing is compared with Crux's and with what pair_search.choose finds on a blank sheet.
A further candidate is near to the present one: with free paths taken. Of all that are predicted to
serve the jobs within one per cent of the better of Crux's and the blank sheet's, the one with the
fewest moves is taken. Predictions are those of throughput.py. They are wrong by some per cent, so
the blank sheet's routing counts only if it is clearly better than Crux's, and none may load links
much more.

Views with few events are simulated as well (simulated_choice.py). Then the less favourable of
prediction and simulation counts, the margins are narrower, and the further candidate comes of a
local search.

Crux's and the blank sheet's routing depend on the view alone, not on where flows are. So a plan
does not move the flows of its own result.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hostcc.schedule.intensity import crossed, incidence
from hostcc.schedule.paths import crux, greedy, moves, pair_search
from hostcc.schedule.paths import fabric as fabrics
from hostcc.schedule.paths.fabric import Floats, Ints
from hostcc.schedule.paths.free_paths import move_to_free_paths
from hostcc.schedule.paths.isolated import IsolatedJobs, isolated_jobs
from hostcc.schedule.paths.throughput import throughput
from hostcc.schedule.problem import TINY_S, Problem

MIN_GAIN_FRACTION = 0.01
"""Fraction of its job's worth (FLOP/s without contention) that a move must gain."""
NEARLY = 0.99
"""Fraction of the best routing's throughput that counts as equally good: a move has its price."""
WELL_SERVED = 0.95
"""Fraction of the throughput without contention from which on, if predictions decide, Crux's
routing is not compared with a blank sheet's: of 181 random views of which it serves as much, a
blank sheet gained 1 % in one, of 8 jobs, which would be simulated."""
USUAL, BLANK = 1, 2
"""Indices of Crux's and of the blank sheet's routing among the candidates; 0 is the present one."""
MAX_ROUNDS = 4
"""Rounds of local search."""
MAX_MOVES = 256
"""Moves, in one plan, of flows that could stay, where a view has too many flows to be compared."""
MAX_COMPARED_FLOWS = 4096
"""Flows up to which every plan is compared with Crux's and the blank sheet; of more, those that are
served badly, and not where flows were just placed."""
SERVED_BADLY = 0.9
"""Fraction of the throughput without contention."""


@dataclass(frozen=True)
class Margins:
    """Fractions of the throughput of Crux's routing that others need to be taken."""

    blank: float
    """The blank sheet's."""
    near: float
    """The one near to the present one, which itself needs NEARLY as much: it moves nothing."""


PREDICTED, SIMULATED = Margins(1.01, 0.99), Margins(1.002, 0.998)
"""Where predictions decide, and where simulations do as well."""
MAX_LOAD_RATIO = 1.02
"""Load over that of Crux's routing, above which a routing has to do no less than Crux's: on fuller
links jobs lose more than predicted."""


@dataclass(frozen=True)
class Move:
    """Flows that leave paths on which they could have stayed."""

    flows: tuple[int, ...]
    gain: float
    """Predicted gain over the same plan without these moves, in FLOP/s."""


@dataclass(frozen=True)
class Replan:
    """A routing that follows another."""

    routing: Ints
    """(F,)"""
    placed: Ints
    """Flows that had no usable path: new ones, and those whose path has failed."""
    moves: tuple[Move, ...]


@dataclass(frozen=True)
class Present:
    """The present routing."""

    routing: Ints
    """(F,), with flows that had no path placed."""
    placed: Ints
    """Those flows."""
    reference: IsolatedJobs
    throughput: float
    """FLOP/s, predicted."""


@dataclass(frozen=True)
class Candidates:
    """Routings to choose from."""

    routings: Ints
    """(N, F): the present one, with flows that had no path placed; then, unless that one cannot be
    beaten, Crux's, the blank sheet's, and perhaps one near to it."""
    predicted: Floats
    """(N,) throughput in FLOP/s."""
    load: Floats
    """(N,) mean over jobs of the busiest link that each crosses, seconds of traffic per second."""
    moved: Ints
    """(N,) flows that leave a path on which they could stay."""
    placed: Ints
    """Flows that had no usable path."""


def replan(problem: Problem) -> Replan:
    """Return the next routing of a Problem whose `flow_path` has the present paths (-1: none)."""
    routing, placed = keep_paths(problem)
    many = problem.flow_count > MAX_COMPARED_FLOWS
    if many and len(placed):  # they are on paths in the next view, which is compared
        return _improve_placed(problem, routing, placed)
    reference, now = isolated_jobs(problem), throughput(problem, routing)
    if many and now >= SERVED_BADLY * float(reference.worth.sum()):
        near = pair_search.improve(problem, reference, routing, _toll(problem, reference), now)
        return _in_stages(problem, routing, near, placed, throughput(problem, near) - now)
    found = candidates(problem, Present(routing, placed, reference, now))
    chosen = choose(scores(found.predicted), found, PREDICTED)
    gain = float(found.predicted[chosen] - found.predicted[0])
    # All at once: what lies between the two may seem as good as its end, and stay.
    return _step(problem, found.routings[0], found.routings[chosen], found.placed, gain)


def candidates(problem: Problem, begun: Present | None = None, *, near: bool = False) -> Candidates:
    """Return the routings of which one is the next.

    `begun`: the present one, if it was worked out. One of them is near to it: with free paths
    taken, `near`: after a local search.
    Those are simulated, so that a blank sheet is worth a look in every case.
    """
    known: dict[bytes, tuple[float, float]] = {}

    def judged(routing: Ints, served: float | None = None) -> tuple[float, float]:
        """Throughput (`served`, if it is known) and load; several routings are often the same."""
        name = routing.tobytes()
        if name not in known:
            load = moves.mean_peak_load(problem, moves.occupancy(problem, None, routing))
            known[name] = throughput(problem, routing) if served is None else served, load
        return known[name]

    if begun is None:
        present, placed = keep_paths(problem)
        begun = Present(present, placed, isolated_jobs(problem), throughput(problem, present))
    present, placed, reference = begun.routing, begun.placed, begun.reference
    alone, (now, load) = float(reference.worth.sum()), judged(present, begun.throughput)
    routings = [present]
    if now < NEARLY * alone or load > moves.LIGHT_LOAD:
        usual = blank = crux.crux(problem, reference)
        served = judged(usual)[0]
        if near or served < WELL_SERVED * alone:
            blank = pair_search.choose(problem, reference, usual, served)
        routings += [usual, blank]
        if now < NEARLY * max(served, judged(blank)[0]):
            found = present
            if near:
                toll = _toll(problem, reference)
                found = pair_search.improve(problem, reference, present, toll, now, MAX_ROUNDS)
            routings.append(_apart(problem, found))
    made, columns = np.array(routings), np.array(list(map(judged, routings)))
    left = (problem.flow_path >= 0) & (made != problem.flow_path)
    return Candidates(made, columns[:, 0], columns[:, 1], left.sum(axis=1), placed)


def scores(throughputs: Floats) -> Floats:
    """Return (N,) the throughput of candidates over that of Crux's."""
    usual = throughputs[min(USUAL, len(throughputs) - 1)]
    # Where nothing runs, all are alike.
    return throughputs / usual if usual > 0 else np.ones(len(throughputs))


def eligible(score: Floats, load: Floats, margins: Margins) -> Ints:
    """Return the candidates that may be taken, ascending; Crux's always.

    `score` (N,): of scores(); `load` (N,): their loads.
    """
    if len(score) == 1:
        return np.zeros(1, np.int64)
    least = np.array([NEARLY, 0.0, margins.blank, margins.near])[: len(score)]
    fuller = load > MAX_LOAD_RATIO * load[USUAL]
    return np.flatnonzero(score >= np.where(fuller, np.maximum(least, 1.0), least))


def choose(score: Floats, found: Candidates, margins: Margins) -> int:
    """Return the index of the candidate to take.

    `score` (N,): of scores(), by the predictor that is least favourable to each. Of those that are
    eligible and do nearly as well as Crux's and the blank sheet's, the one with the fewest moves is
    taken: the present one, if it is among them.
    """
    some = eligible(score, found.load, margins)
    best = score[some[(some == USUAL) | (some == BLANK)]].max(initial=0.0)
    some = some[score[some] >= NEARLY * best]
    return int(some[np.lexsort((-score[some], found.moved[some]))[0]])


def _apart(problem: Problem, routing: Ints) -> Ints:
    """Return a routing (F,) whose flows take paths of their own where there are some."""
    found = routing.copy()
    for flow, path in move_to_free_paths(problem, routing).items():
        found[flow] = path
    return found


def _toll(problem: Problem, reference: IsolatedJobs) -> Floats:
    """Return (F,) FLOP/s that a move of each flow has to gain."""
    return np.asarray(MIN_GAIN_FRACTION * reference.worth[problem.flow_job])


def _in_stages(problem: Problem, present: Ints, routing: Ints, placed: Ints, gain: float) -> Replan:
    """Return a step to a routing that is predicted to gain `gain`: all its moves, or the first
    MAX_MOVES if these gain by themselves."""
    moved = _moved(problem, present, routing)
    if len(moved) > MAX_MOVES:
        first = routing.copy()
        first[moved[MAX_MOVES:]] = present[moved[MAX_MOVES:]]
        own = throughput(problem, first) - throughput(problem, present)
        if own > 0:
            routing, gain = first, own
    return _step(problem, present, routing, placed, gain)


def _step(problem: Problem, present: Ints, routing: Ints, placed: Ints, gain: float) -> Replan:
    moved = _moved(problem, present, routing)
    return Replan(routing, placed, (Move(tuple(moved.tolist()), gain),) if len(moved) else ())


def _moved(problem: Problem, present: Ints, routing: Ints) -> Ints:
    return np.flatnonzero((routing != present) & (problem.flow_path >= 0))


def _improve_placed(problem: Problem, routing: Ints, placed: Ints) -> Replan:
    """Find better paths for flows that were just placed, and for those that they meet."""
    now = moves.occupancy(problem, None, routing)
    flows = _affected(problem, now, placed)
    if not len(flows):
        return Replan(routing, placed, ())
    reference = _jobs_as_routed(problem, now.comm)
    rough = len(flows) > pair_search.MAX_FLOWS_PER_ROUND // 4
    tried = moves.trials(
        problem, reference, now, flows[: pair_search.MAX_FLOWS_PER_ROUND], rough=rough
    )
    gain = tried.gain()
    fresh = np.isin(tried.flow, placed)
    min_gain = np.where(fresh, 0.0, _toll(problem, reference)[tried.flow])
    made = []
    for row in moves.independent(problem, routing, tried, min_gain)[:MAX_MOVES]:
        flow, path = int(tried.flow[row]), int(tried.path[row])
        if not fresh[row]:
            made.append(Move((flow,), float(gain[row])))
        routing[flow] = path
    return Replan(routing, placed, tuple(made))


def keep_paths(problem: Problem) -> tuple[Ints, Ints]:
    """Return a routing (F,) in which flows keep their paths and the others are placed; and those
    others."""
    placed = np.flatnonzero(problem.flow_path < 0)
    routing = problem.flow_path.copy()
    routing[placed] = problem.table_start[problem.flow_table[placed]]
    if not len(placed):
        return routing, placed
    flow, link = incidence(problem, routing)
    comm = crossed(problem, flow, link).times(problem.job_count)
    period = _jobs_as_routed(problem, comm).period
    duty = fabrics.integer_demands(problem.flow_bytes / period[problem.flow_job])
    on = (problem.flow_path >= 0)[flow]
    load = np.bincount(link[on], duty[flow[on]], problem.link_count + 2).astype(np.float64)
    tables, at = np.unique(problem.flow_table[placed], return_inverse=True)
    fabric = fabrics.from_problem(problem, tables)
    order = np.argsort(-duty[placed], kind="stable")
    empty = np.full(len(placed), -1, np.int64)
    found = greedy.place(fabric, at.reshape(-1), duty[placed], order.tolist(), empty, load)
    routing[placed] += found
    return routing, placed


def _jobs_as_routed(problem: Problem, comm: Floats) -> IsolatedJobs:
    """Return each job on its present paths, without the others; `comm` (J,) is its t."""
    period = np.maximum(np.maximum(problem.compute, problem.comm_start + comm), TINY_S)
    return IsolatedJobs(period, comm, problem.work * problem.weight / period)


def _affected(problem: Problem, now: moves.Occupancy, placed: Ints) -> Ints:
    """Return flows with a choice: the placed ones, then those of jobs that meet them."""
    options = np.diff(problem.table_start)[problem.flow_table]
    jobs = np.zeros(problem.job_count, np.bool_)
    jobs[problem.flow_job[placed]] = True
    link = np.repeat(np.arange(problem.link_count), np.diff(now.starts))
    shared = np.zeros(problem.link_count, np.bool_)
    shared[link[jobs[now.job]]] = True
    jobs[now.job[shared[link]]] = True
    others = jobs[problem.flow_job] & (options > 1)
    others[placed] = False
    return np.concatenate([placed[options[placed] > 1], np.flatnonzero(others)])
