"""Simulates the routings between which a plan chooses, where that needs few enough events.

Predictions are wrong by some per cent in single cases, and so are short simulations. They are
wrong for different reasons: the first ignore when jobs meet, the second begin with every job's
first iteration. So a routing has to pass by both (paths/replanning.py).
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Sequence

import numpy as np

from hostcc.schedule.fluid import Cycle, Group, simulate
from hostcc.schedule.intensity import communication_time
from hostcc.schedule.problem import TINY_S, Floats, Ints, Problem
from hostcc.schedule.simulation_rows import (
    SimulationRows,
    expected_events,
    quickest_paths,
    reduce_flows,
)

MAX_FLOWS = 256
"""Flows up to which routings are simulated; as many may move in one plan."""
MAX_EVENTS = 8000
"""Starts and ends of phases and flows that are expected in a simulation of one routing: some 0.1 s
of a processor for each of two or three."""
WARMUP_ITERATIONS, COUNTED_ITERATIONS = 4.0, 8.0
"""Iterations of the longest job: before the window, and within it. The error of a ratio to Crux's
has a standard deviation of 0.6 %; it is 0.9 % for half of both and as many starts, and 0.8 % for
half of both and twice the starts."""
STARTS = 2
"""Starts of each routing, with other phases (of 8 bytes each, of a hash of 32), side by side."""


def fits(problem: Problem) -> bool:
    """Return whether a problem has present paths, and few enough events for this choice."""
    if not 0 < problem.flow_count <= MAX_FLOWS or not (problem.flow_path >= 0).any():
        return False
    if (problem.compute <= TINY_S).any():
        return False
    flows = np.bincount(problem.flow_job, minlength=problem.job_count)
    period = _period(problem)
    seconds = (WARMUP_ITERATIONS + COUNTED_ITERATIONS) * float(period.max())
    shortest = np.minimum(period, _period(problem, quickest_paths(problem)))
    return expected_events(shortest, flows, seconds) <= MAX_EVENTS


def values(problem: Problem, worth: Floats, schedules: Sequence[tuple[Ints, Ints]]) -> Floats:
    """Return (N,) the simulated work per second of schedules: routings (F,) and levels (J,).

    `worth` (J,): value of an iteration. Every schedule is simulated from the same STARTS phases of
    the jobs. A job's depend on its name alone, so that others that come and go change little.
    """
    jobs, period = problem.job_count, _period(problem)
    digests = [hashlib.sha256(f"phases {job}".encode()).digest() for job in problem.job_ids]
    share = np.frombuffer(b"".join(digests), "<u8").reshape(jobs, -1)[:, :STARTS] / 2.0**64
    phase = (share.T * period).reshape(-1)
    cycle = Cycle(np.tile(problem.compute, STARTS), np.tile(problem.comm_start, STARTS), -phase)
    groups = [
        Group(rows, level[None, :], np.arange(start, start + jobs))
        for rows, level in _variants(problem, schedules)
        for start in range(0, STARTS * jobs, jobs)
    ]
    begin = WARMUP_ITERATIONS * float(period.max())
    seconds = COUNTED_ITERATIONS * float(period.max())
    found = simulate(cycle, groups, begin, begin + seconds).compute_seconds
    each = (found * np.tile(worth / problem.compute, STARTS)).sum(axis=1)
    return np.asarray(each.reshape(-1, STARTS).mean(axis=1) / seconds)


def _variants(
    problem: Problem, schedules: Sequence[tuple[Ints, Ints]]
) -> list[tuple[SimulationRows, Ints]]:
    ends = problem.path_start.tolist()
    links = [problem.path_links[first:past].tolist() for first, past in itertools.pairwise(ends)]
    job, size, capacity = (
        one.tolist() for one in (problem.flow_job, problem.flow_bytes, problem.capacity)
    )
    return [
        (
            reduce_flows(
                problem.job_count, job, size, [links[path] for path in routing.tolist()], capacity
            ),
            level,
        )
        for routing, level in schedules
    ]


def _period(problem: Problem, routing: Ints | None = None) -> Floats:
    """Return (J,) seconds of an iteration; `routing` None: each flow on its first path."""
    first = problem.table_start[problem.flow_table]
    comm = communication_time(problem, first if routing is None else routing)
    return np.maximum(np.maximum(problem.compute, problem.comm_start + comm), TINY_S)
