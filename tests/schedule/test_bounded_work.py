"""The work of a plan is bounded by counts, whatever a view says, and every plan is defined."""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from random import Random
from types import FrameType
from typing import Any

import numpy as np
import pytest

from hostcc.model import ClusterView
from hostcc.schedule import simulated_choice, simulated_search
from hostcc.schedule.paths import moves, pair_search
from hostcc.schedule.paths.isolated import isolated_jobs
from hostcc.schedule.plan import Options, Solution, solve_for_agents
from hostcc.schedule.problem import Ints, Problem, build
from tests.schedule.paths import problems

pytestmark = pytest.mark.unit

MAX_CALLS = 500_000
"""Calls of functions, most of which work on whole arrays."""
MAX_BYTES = 128 << 20


def crowd(
    jobs: int, flows: int, seed: int, *, tors: int = 4, spines: int = 2, on: str = "s0"
) -> ClusterView:
    """Jobs of so many flows each on few links."""
    chance = Random(seed)
    made = []
    for _ in range(jobs):
        ends = [chance.sample(range(tors), 2) for _ in range(flows)]
        size = [chance.uniform(0.1, 0.9) / flows for _ in range(flows)]
        made.append(
            {
                "compute": chance.uniform(0.4, 2.0),
                "work": chance.uniform(1, 9),
                "flows": [(a, b, much, on) for (a, b), much in zip(ends, size, strict=True)],
            }
        )
    return problems.view(made, tors=tors, spines=spines)


def quick_and_slow(flows: int) -> ClusterView:
    """Six jobs, one of which iterates 60 times as often; all flows of another length."""
    chance = Random(1)
    made = [
        {
            "compute": compute,
            "flows": [
                (*chance.sample(range(3), 2), compute / flows * chance.random(), "s0")
                for _ in range(flows)
            ],
        }
        for compute in (0.013, *[0.6] * 5)
    ]
    return problems.view(made, spines=1)


def choices_beside_many(flows: int) -> ClusterView:
    """Ten flows with two paths each, 1,024 routings, beside many flows that have only one."""
    made: list[dict[str, Any]] = [
        {"flows": [(0, 1, 0.05, "s0")] * 5},
        {"flows": [(0, 1, 0.05, "s1")] * 5},
    ]
    made += [{"flows": [(2, 3, 1e-4 * (n + 1), "s0") for n in range(flows)]}]
    return problems.view(made, tors=4, spines=2, dead=("t2>s1",))


def beside_a_slow_path(capacity: float) -> ClusterView:
    """Two jobs on the second of two paths, the first of which has links of another capacity."""
    made = problems.view([{"compute": 0.1, "flows": [(0, 1, 0.05, "s1")]}] * 2, spines=2)
    links = tuple((name, capacity if "s0" in name else 1.0) for name, _ in made.links)
    return replace(made, links=links)


def measured(work: Callable[[], Solution]) -> tuple[Solution, int, int]:
    """What `work` returns, the functions that it calls, and the most bytes that it holds."""
    calls = 0

    def count(frame: FrameType, event: str, arg: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    tracemalloc.start()
    sys.setprofile(count)
    try:
        found = work()
    finally:
        sys.setprofile(None)
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return found, calls, most


VIEWS: dict[str, Callable[[], ClusterView]] = {
    "quick and slow jobs": lambda: quick_and_slow(10),
    "choices beside many flows": lambda: choices_beside_many(3000),
    "a path that hardly carries anything": lambda: beside_a_slow_path(1e-5),
    "everybody on few links": lambda: crowd(4000, 1, 8),
    "one job of many flows": lambda: crowd(1, 4000, 4, tors=8, spines=8),
    "a view that is compared": lambda: crowd(200, 20, 5, tors=8, spines=8),
    "as many as are simulated": lambda: crowd(24, 10, 6),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", VIEWS)
def test_a_plan_ends_within_the_counted_work(name: str) -> None:
    view = VIEWS[name]()
    found, calls, most = measured(lambda: solve_for_agents(view, Options()))
    assert problems.valid(found.problem, found.decision.routing)
    assert ((found.level >= 0) & (found.level < 8)).all()
    assert calls <= MAX_CALLS
    assert most <= MAX_BYTES


def test_jobs_whose_schedules_take_long_to_simulate_are_predicted() -> None:
    assert simulated_search.fits(build(quick_and_slow(2)), 400)
    assert not simulated_search.fits(build(quick_and_slow(10)), 400)
    # Flows that are alike count as one.
    alike = [{"compute": 0.5, "flows": [(0, 1, 0.01, "s0")] * 80} for _ in range(6)]
    assert simulated_search.fits(problems.problem(alike, spines=1), 400)
    assert not simulated_search.fits(build(choices_beside_many(600)), 400)


def test_on_quick_paths_iterations_are_many_while_one_passes_on_a_slow_one() -> None:
    for capacity, fits in ((1.0, True), (0.1, True), (1e-3, False), (1e-5, False)):
        made = build(beside_a_slow_path(capacity))
        assert simulated_search.fits(made, 400) is fits
        assert simulated_choice.fits(made) is fits


def test_moves_that_would_meet_very_many_jobs_are_not_all_judged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = build(crowd(40, 2, 7))
    reference, now = isolated_jobs(made), moves.occupancy(made, None, made.flow_path)
    flows = np.arange(made.flow_count)
    every = moves.trials(made, reference, now, flows, rough=True)
    monkeypatch.setattr(moves, "MAX_MET", 500)
    some = moves.trials(made, reference, now, flows, rough=True)
    count = len(some.flow)
    assert 0 < count < len(every.flow)
    assert some.path.tolist() == every.path[:count].tolist()
    # Of whole flows.
    assert every.flow[count] != some.flow[-1]


def test_routings_of_very_many_flows_are_not_all_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    made = build(choices_beside_many(10))
    tried: list[Problem] = []
    enumerate_ = pair_search._enumerate

    def enumerated(problem: Problem, *rest: Any) -> Ints:
        tried.append(problem)
        return enumerate_(problem, *rest)

    monkeypatch.setattr(pair_search, "_enumerate", enumerated)
    pair_search.choose(made)
    assert tried
    monkeypatch.setattr(pair_search, "MAX_PLACED_CELLS", 1000)
    tried.clear()
    assert problems.valid(made, pair_search.choose(made))
    assert not tried


def test_iterations_that_would_take_years_have_a_plan() -> None:
    years = [{"compute": 1.0, "flows": [(0, 1, 2.0**60 / 1e6 * share, "")]} for share in (0.7, 1.0)]
    few = [{"compute": 86_400.0, "flows": [(0, 1, 0.3, "")]} for _ in range(2)]
    view = problems.view([*years, *few] * 2, spines=1)
    found = solve_for_agents(view, Options())
    assert problems.valid(found.problem, found.decision.routing)
