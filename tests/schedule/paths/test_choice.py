"""Crux's paths, TACCL*, the pair-loss default: valid, independent of order, and what they find."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostcc.model import ClusterView
from hostcc.schedule import fluid, job_pairs, simulation_rows
from hostcc.schedule.paths import crux, moves, pair_search, prediction
from hostcc.schedule.paths.fabric import Ints
from hostcc.schedule.paths.isolated import isolated_jobs
from hostcc.schedule.problem import Problem, build
from hostcc.sim import small
from tests import hash_seeds
from tests.schedule.paths import problems

pytestmark = [pytest.mark.unit, pytest.mark.slow]

METHODS: list[Callable[[Problem], Ints]] = [crux.crux, crux.taccl, pair_search.choose]


@pytest.mark.parametrize("choose", METHODS)
@given(view=problems.views())
def test_every_flow_is_on_a_usable_path_of_its_pair(
    choose: Callable[[Problem], Ints], view: ClusterView
) -> None:
    made = build(view)
    assert problems.valid(made, choose(made))


@pytest.mark.parametrize("choose", METHODS)
@given(view=problems.views(), random=st.randoms(use_true_random=False))
def test_the_order_of_a_view_does_not_matter(
    choose: Callable[[Problem], Ints], view: ClusterView, random: Any
) -> None:
    def shuffled(items: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(random.sample(items, len(items)))

    other = replace(
        view,
        jobs=shuffled(view.jobs),
        flows=shuffled(view.flows),
        links=shuffled(view.links),
        tables=tuple(replace(t, paths=shuffled(t.paths)) for t in shuffled(view.tables)),
    )
    first, second = build(view), build(other)
    assert choose(first).tobytes() == choose(second).tobytes()


@pytest.mark.parametrize("choose", METHODS)
def test_no_job_and_one_job(choose: Callable[[Problem], Ints]) -> None:
    assert not len(choose(problems.problem([])))
    assert not len(choose(problems.problem([{"flows": []}])))
    made = problems.problem([{"flows": [(0, 1, 0.5, ""), (0, 1, 0.5, "")]}])
    assert sorted(problems.names(made, choose(made)).values()) == ["s0", "s1"]


def test_crux_gives_the_job_of_most_intensity_the_first_choice() -> None:
    jobs = [
        {"work": 1.0, "flows": [(0, 1, 0.9, "")]},
        {"work": 9.0, "flows": [(0, 1, 0.5, "")]},
        {"work": 5.0, "flows": [(0, 1, 0.8, "")]},
    ]
    found = problems.names(made := problems.problem(jobs), crux.crux(made))
    assert found == {"j1-0": "s0", "j2-0": "s1", "j0-0": "s0"}


def test_congestion_is_by_share_of_time_or_by_bytes() -> None:
    jobs = [
        {"work": 9.0, "compute": 10.0, "flows": [(0, 1, 2.0, "")]},
        {"work": 1.0, "compute": 0.1, "flows": [(0, 1, 0.5, "")]},
        {"work": 0.1, "compute": 9.0, "flows": [(0, 1, 1.0, "")]},
    ]
    made = problems.problem(jobs)
    by_time, by_bytes = crux.crux(made), crux.crux(made, by_bytes=True)
    assert problems.names(made, by_time)["j2-0"] == problems.names(made, by_time)["j0-0"]
    assert problems.names(made, by_bytes)["j2-0"] == problems.names(made, by_bytes)["j1-0"]


def test_taccl_begins_with_the_most_traffic() -> None:
    jobs = [{"flows": [(0, 1, size, "")]} for size in (1.0, 2.0, 3.0)]
    found = problems.names(made := problems.problem(jobs), crux.taccl(made))
    assert found == {"j2-0": "s0", "j1-0": "s1", "j0-0": "s1"}


def test_pair_loss_puts_jobs_together_that_do_not_hurt_each_other() -> None:
    heavy = {"compute": 0.5, "work": 10.0, "flows": [(0, 1, 0.9, "")]}
    light = {"compute": 1.0, "start": 0.1, "work": 10.0, "flows": [(0, 1, 0.2, "")]}
    made = problems.problem([heavy, heavy | {"work": 11.0}, light])
    found = problems.names(made, pair_search.choose(made))
    assert found["j0-0"] != found["j1-0"]


def test_rounds_never_raise_the_prediction_and_gain_somewhere() -> None:
    gained = 0
    for index in range(30):
        made = build(small.small_case(3, index))
        reference = isolated_jobs(made)
        start = crux.taccl(made)
        found = pair_search.improve(made, reference, start, 0.0)
        before, after = (prediction.routing_loss(made, reference, r) for r in (start, found))
        assert after <= before * (1 + 1e-9)
        gained += after < before * (1 - 1e-6)
        best = pair_search.choose(made)
        assert prediction.routing_loss(made, reference, best) <= prediction.routing_loss(
            made, reference, crux.crux(made)
        ) * (1 + 1e-9)
    assert gained > 0


def test_under_overload_cruxs_paths_stay() -> None:
    jobs = [
        {"compute": 0.1, "work": 1.0 + n, "flows": [(0, 1, 1.0, ""), (1, 2, 0.3 * n, "")]}
        for n in range(8)
    ]
    made = problems.problem(jobs)
    now = moves.occupancy(made, None, crux.crux(made))
    assert moves.mean_peak_load(made, now) > 1.5
    assert np.array_equal(pair_search.choose(made), crux.crux(made))


def test_beyond_a_light_load_links_are_no_fuller_than_on_cruxs_paths() -> None:
    rejected = 0
    for seed in range(10):
        made = problems.random_problem(seed, 1.0)
        reference, start = isolated_jobs(made), crux.crux(made)
        searched = pair_search.improve(made, reference, start, 1e-9 * float(reference.worth.sum()))
        crossed, free, chosen = (
            moves.mean_peak_load(made, moves.occupancy(made, None, routing))
            for routing in (start, searched, pair_search.choose(made))
        )
        assert chosen <= max(crossed, moves.LIGHT_LOAD)
        rejected += free > max(crossed, moves.LIGHT_LOAD)
    assert rejected > 0


def test_the_estimate_is_near_the_followed_map_on_average() -> None:
    ratios = []
    for index in range(40):
        made = build(small.small_case(5, index))
        reference = isolated_jobs(made)
        one, other = np.triu_indices(made.job_count, 1)
        met = job_pairs.Pairs(one, other, reference.comm[one], reference.comm[other])
        exact, rough = (
            prediction.pair_losses(made, reference, reference.comm, met, rough=way).sum()
            for way in (False, True)
        )
        if exact > 0:
            ratios.append(rough / exact)
    assert 0.5 < np.mean(ratios) < 2.0


def simulated(made: Problem, routing: Ints) -> float:
    """The utilisation of the best of all orders, simulated."""
    hops = [made.path_links[made.path_start[p] : made.path_start[p + 1]].tolist() for p in routing]
    lines = simulation_rows.reduce_flows(
        made.job_count,
        made.flow_job.tolist(),
        made.flow_bytes.tolist(),
        hops,
        made.capacity.tolist(),
    )
    from hostcc.schedule.order import all_orders

    levels = np.argsort(all_orders(made.job_count), axis=1)
    longest = float(isolated_jobs(made).period.max())
    cycle = fluid.Cycle(made.compute, made.comm_start, -made.phase)
    outcome = fluid.simulate(cycle, [fluid.Group(lines, levels)], 5 * longest, 25 * longest)
    return float((outcome.compute_seconds @ made.gpus).max())


def test_the_simulator_agrees_that_the_default_is_better_than_crux() -> None:
    ratios = []
    for index in range(12):
        made = build(small.small_case(1, index))
        ours, theirs = pair_search.choose(made), crux.crux(made)
        if not np.array_equal(ours, theirs):
            ratios.append(simulated(made, ours) / simulated(made, theirs))
    assert len(ratios) > 2
    assert np.mean(ratios) > 1.003


PROGRAM = """
import sys
from hostcc.schedule.paths import pair_search
from hostcc.schedule.problem import build
from hostcc.sim import small
for index in range(5):
    sys.stdout.buffer.write(pair_search.choose(build(small.small_case(2, index))).tobytes())
"""


def test_another_process_with_another_hash_seed_finds_the_same_bytes() -> None:
    assert hash_seeds.output(PROGRAM)
