"""Small problems: components, the oracle, and the search over both."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from hostcc.schedule import simulated_search
from hostcc.schedule.components import SmallProblem
from hostcc.schedule.fluid import Group, simulate
from hostcc.schedule.problem import Ints, build
from hostcc.schedule.simulation_rows import reduce_flows
from hostcc.sim.small import small_case

pytestmark = pytest.mark.unit

SHORT = (1.0, 6.0)


@pytest.mark.parametrize("index", range(4))
def test_components_are_worth_what_the_whole_is(index: int) -> None:
    problem = build(small_case(5, index))
    small = SmallProblem(problem)
    judge = simulated_search.make_oracle(small, problem.work, SHORT)
    rng = np.random.default_rng(index)
    for _ in range(4):
        routing = tuple(int(rng.choice(list(choice))) for choice in small.choices)
        layout = small.layout(routing)
        levels = rng.integers(0, 3, problem.job_count)
        rows = reduce_flows(
            problem.job_count,
            small.flow_job,
            small.flow_bytes,
            [small.path_links[path] for path in routing],
            small.capacity,
        )
        whole = simulate(judge.cycle, [Group(rows, levels[None])], *judge.window)
        seconds = judge.window[1] - judge.window[0]
        expected = float((whole.compute_seconds[0] * judge.worth).sum()) / seconds
        found = sum(
            judge.value(part, levels[list(part.members)].tolist()) for part in layout.components
        )
        assert found == pytest.approx(expected, rel=1e-6)


def test_layouts_are_all_there_is() -> None:
    problem = build(small_case(5, 1))
    small = SmallProblem(problem)
    looks = {layout.components for layout in small.layouts()}
    rng = np.random.default_rng(0)
    for _ in range(50):
        routing = tuple(int(rng.choice(list(choice))) for choice in small.choices)
        assert small.layout(routing).components in looks


def test_search_with_room_for_everything_finds_the_best() -> None:
    problem = build(small_case(5, 2))
    small = SmallProblem(problem)
    judge = simulated_search.make_oracle(small, problem.work, SHORT)
    best = 0.0
    for layout in small.layouts():
        judge.learn([(part, small.orders(part)) for part in layout.components])
        best = max(
            best,
            sum(
                max(judge.value(part, rank) for rank in small.orders(part).tolist())
                for part in layout.components
            ),
        )
    found = simulated_search.search(small, judge, problem.work, None, 10**6)
    layout = small.layout(tuple(found.routing.tolist()))
    value = sum(
        judge.value(part, found.rank[list(part.members)].tolist()) for part in layout.components
    )
    assert value >= best * 0.995
    assert sorted(found.rank.tolist()) == list(range(problem.job_count))


def test_budget_bounds_the_work() -> None:
    problem = build(small_case(5, 3))
    small = SmallProblem(problem)
    judge = simulated_search.make_oracle(small, problem.work, SHORT)
    found = simulated_search.search(small, judge, problem.work, None, 20)
    assert found.simulated <= 20 + simulated_search.ORDERS_PER_COMPONENT * problem.job_count


def test_what_would_take_long_to_simulate_does_not_fit() -> None:
    view = small_case(5, 3)
    times = {job.job: 0.1 for job in view.jobs}
    assert simulated_search.fits(build(view), 400)
    times[view.jobs[0].job] = 86_400.0
    jobs = [
        dataclasses.replace(job, compute_s=times[job.job], comm_start_s=times[job.job])
        for job in view.jobs
    ]
    assert not simulated_search.fits(build(dataclasses.replace(view, jobs=tuple(jobs))), 400)


def test_no_routing_that_does_less_than_another_one_stays() -> None:
    """Flows on paths that are nearly as good as Crux's: a move would not be worth its price."""
    problem = build(small_case(5, 5))
    small = SmallProblem(problem)
    judge = simulated_search.make_oracle(small, problem.work, SHORT)
    every = list(small.layouts())
    judge.learn([(part, small.orders(part)) for one in every for part in one.components])

    def value(routing: Ints) -> float:
        return sum(
            max(judge.value(part, rank) for rank in small.orders(part).tolist())
            for part in small.layout(tuple(routing.tolist())).components
        )

    worths = sorted({value(np.array(one.routing)) for one in every})
    best = worths[-1]
    near = next(one for one in every if best * 0.99 < value(np.array(one.routing)) < best)
    least = next(one for one in every if value(np.array(one.routing)) == best)
    now = dataclasses.replace(problem, flow_path=np.array(near.routing))
    on = SmallProblem(now)
    stays = simulated_search.search(on, judge, now.work, None, 10**6)
    assert stays.moved == ()
    moved = simulated_search.search(on, judge, now.work, None, 10**6, least=least)
    assert moved.moved
    assert moved.gain > 0
    assert value(moved.routing) >= best * (1 - 1e-9)
