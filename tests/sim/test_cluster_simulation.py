"""The scalar simulation against exact schedules and against the batch simulation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from hostcc.schedule.fluid import Cycle, Group
from hostcc.schedule.fluid import simulate as batch
from hostcc.schedule.problem import build
from hostcc.schedule.simulation_rows import reduce_flows
from hostcc.sim.cluster_simulation import constant, simulate
from hostcc.sim.periodic import Orders, SimFlow, SimJob
from hostcc.sim.small import small_case
from tests.schedule.exact import cases

pytestmark = pytest.mark.unit


def jobs_of(case: Any) -> list[SimJob]:
    names = list(case["links"])
    return [
        SimJob(
            job["compute"],
            job["comm_start_after"],
            tuple(
                SimFlow(flow["bytes"], tuple(names.index(link) for link in flow["links"]))
                for flow in case["flows"]
                if flow["job"] == index
            ),
            job["start"],
        )
        for index, job in enumerate(case["jobs"])
    ]


@pytest.mark.parametrize("case", cases("sched"))
def test_exact(case: Any) -> None:
    jobs, capacity = jobs_of(case), list(case["links"].values())
    stored = [one for one in case.values() if isinstance(one, dict) and "levels" in one]
    for one in [*stored, *case["named"].values()]:
        found = simulate(jobs, capacity, constant(one["levels"]), case["T0"], case["T"])
        assert found.compute_seconds == pytest.approx(one["compute_seconds"], abs=1e-6)
        assert found.iterations == one["iterations_completed"]


@pytest.mark.parametrize("index", range(12))
def test_as_the_batch_simulation(index: int) -> None:
    problem = build(small_case(11, index))
    rng = np.random.default_rng(index)
    first, last = problem.table_start[problem.flow_table], problem.table_start[1:]
    routing = first + rng.integers(0, 100, problem.flow_count) % (last[problem.flow_table] - first)
    links = [
        tuple(problem.path_links[problem.path_start[p] : problem.path_start[p + 1]].tolist())
        for p in routing
    ]
    flow_job, sizes = problem.flow_job.tolist(), problem.flow_bytes.tolist()
    capacity = rng.choice([0.5, 1.0, 1.5], problem.link_count).tolist()
    rows = reduce_flows(5, flow_job, sizes, links, capacity)
    levels = np.array([rng.permutation(5), rng.integers(0, 3, 5), np.zeros(5)], np.int64)
    cycle = Cycle(problem.compute, problem.comm_start, -problem.phase)
    found = batch(cycle, [Group(rows, levels)], 2.0, 20.0)
    jobs = [
        SimJob(
            float(problem.compute[job]),
            float(problem.comm_start[job]),
            tuple(SimFlow(sizes[f], links[f]) for f in range(len(links)) if flow_job[f] == job),
            -float(problem.phase[job]),
        )
        for job in range(5)
    ]
    for row, each in enumerate(levels.tolist()):
        own = simulate(jobs, capacity, constant(each), 2.0, 20.0)
        assert found.compute_seconds[row] == pytest.approx(own.compute_seconds, abs=1e-6)
        assert found.iterations[row].tolist() == own.iterations


def test_jobs_come_and_go() -> None:
    flow = (SimFlow(1.0, (0,)),)
    jobs = [SimJob(1.0, 1.0, flow, iterations=3), SimJob(1.0, 1.0, flow, start=2.5, iterations=2)]
    asked: list[tuple[float, list[int]]] = []

    def control(now: float, running: Sequence[int]) -> Orders:
        asked.append((now, list(running)))
        return Orders({0: 0, 1: 1})

    found = simulate(jobs, [1.0], control, 0.0, 100.0)
    assert found.finished == [6.0, 7.0]
    assert found.iterations == [3, 2]
    assert found.compute_seconds == [3.0, 2.0]
    assert asked == [(0.0, [0]), (2.5, [0, 1]), (6.0, [1]), (7.0, [])]


def test_a_controller_moves_a_flow() -> None:
    flow = (SimFlow(1.0, (0,)),)
    jobs = [SimJob(1.0, 1.0, flow), SimJob(1.0, 1.0, flow)]

    def control(now: float, running: Sequence[int]) -> Orders:
        return Orders({}, {(1, 0): (1,)})

    assert simulate(jobs, [1.0, 1.0], control, 0.0, 10.0).iterations == [5, 5]


def test_a_job_without_an_iteration_is_left_out() -> None:
    found = simulate([SimJob(0.0, 0.0, ())], [], constant([0]), 0.0, 10.0)
    assert found.iterations == [0]
