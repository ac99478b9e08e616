"""The pairwise model against the simulator, and the orders found with it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostcc.schedule import order
from hostcc.schedule.fluid import Cycle, Group, simulate
from hostcc.schedule.insertion import InsertionSearch
from hostcc.schedule.job_pairs import graph, pairs_on_links
from hostcc.schedule.order import all_orders, best, losses, matrix, rates
from hostcc.schedule.pair_loss import IsolatedTimes, slowdown
from hostcc.schedule.problem import Ints
from hostcc.schedule.simulation_rows import reduce_flows

pytestmark = [pytest.mark.unit, pytest.mark.slow]


@pytest.mark.parametrize("seed", range(8))
def test_pair_as_simulated(seed: int) -> None:
    rng = np.random.default_rng(seed)
    compute = np.exp(rng.uniform(np.log(0.4), np.log(2), 2))
    start = compute * rng.choice([0.25, 0.5, 0.75, 1.0], 2)
    comm = compute * np.exp(rng.uniform(np.log(0.25), np.log(1.5), 2))
    jobs = IsolatedTimes(compute, start, comm)
    loss = slowdown(jobs, np.array([0]), np.array([1]), comm[:1], comm[1:], phases=64)
    rows = reduce_flows(2, [0, 1], comm.tolist(), [[0], [0]], [1.0])
    took = []
    for phase in np.arange(8) / 8:
        cycle = Cycle(compute, start, np.array([-phase * jobs.period[0], -start[1]]))
        found = simulate(cycle, [Group(rows, np.array([[0, 1]]))], 20.0, 220.0)
        took.append(200.0 / found.compute_seconds[0, 1] * compute[1])
    assert 1 + loss[0] == pytest.approx(np.mean(took) / jobs.period[1], rel=0.08)


def test_a_job_that_leaves_nothing() -> None:
    jobs = IsolatedTimes(np.array([0.5, 1.0]), np.array([0.0, 1.0]), np.array([1.0, 1.0]))
    loss = slowdown(jobs, np.array([0]), np.array([1]), np.ones(1), np.ones(1))
    assert loss[0] > 1000


def test_of_very_many_losses_few_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order, "MAX_EXACT_LOSSES", 40)
    rng = np.random.default_rng(0)
    jobs = IsolatedTimes(
        rng.uniform(0.5, 2, 30), rng.uniform(0.2, 0.5, 30), rng.uniform(0.1, 1, 30)
    )
    met = pairs_on_links(np.arange(30), np.zeros(30, np.int64), jobs.comm, 30)
    first = losses(jobs, met)
    kept = first.followed
    assert kept is not None
    assert 0 < len(kept.at) <= 40 < len(met.one)
    assert sum(one.nbytes for one in vars(kept).values()) <= 40 * 16
    followed = []
    exact = slowdown

    def counted(jobs: IsolatedTimes, upper: Ints, *rest: Any) -> Any:
        followed.append(len(upper))
        return exact(jobs, upper, *rest)

    monkeypatch.setattr(order, "slowdown", counted)
    again = losses(jobs, met, kept)
    assert followed == [0]
    assert np.array_equal(again.one_below, first.one_below)
    assert np.array_equal(again.other_below, first.other_below)


def test_pairs_and_graph() -> None:
    job, link = np.array([0, 1, 2, 0, 2]), np.array([0, 0, 0, 1, 1])
    found = pairs_on_links(job, link, np.array([1.0, 2.0, 3.0, 9.0, 8.0]), 3)
    assert found.one.tolist() == [0, 0, 1]
    assert found.other.tolist() == [1, 2, 2]
    assert found.one_seconds.tolist() == [1.0, 9.0, 2.0]
    assert found.other_seconds.tolist() == [2.0, 8.0, 3.0]
    made = graph(found, np.array([2, 0, 1]), np.array([4.0, 2.0, 1.0]))
    assert list(zip(made.first.tolist(), made.second.tolist(), strict=True)) == [
        (1, 0),
        (1, 2),
        (2, 0),
    ]


@pytest.mark.parametrize(("share", "lose"), [(0.5, False), (0.6, True)])
def test_jobs_that_leave_each_other_room_lose_nothing(share: float, lose: bool) -> None:
    """Two of the jobs use up to a whole link for all of their traffic; all three overfill it."""
    jobs = IsolatedTimes(np.full(3, 0.1), np.full(3, 0.1), np.array([1.0, 1.1, 1.2]))
    found = losses(jobs, pairs_on_links(np.arange(3), np.zeros(3, np.int64), share * jobs.comm, 3))
    assert len(found.one) == 3
    assert (found.other_below > 0).tolist() == (found.one_below > 0).tolist() == [lose] * 3


def test_ten_thousand_on_one_link_are_few_pairs() -> None:
    count = 10_000
    found = pairs_on_links(np.arange(count), np.zeros(count, np.int64), np.ones(count), count)
    assert len(found.one) <= 400_000
    assert np.isin(np.arange(count - 1), found.one).all()


@given(st.integers(7, 14), st.integers(0, 10**6))
@settings(max_examples=30, deadline=None)
def test_search_gives_ranks_and_never_loses(jobs: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    alone = IsolatedTimes(*(rng.uniform(0.2, 2.0, jobs) for _ in range(3)))
    link = rng.integers(0, 4, jobs)
    found = losses(alone, pairs_on_links(np.arange(jobs), link, alone.comm, jobs))
    worth = rng.uniform(1, 10, jobs)
    start = rng.permutation(jobs)
    rank = best(jobs, found, worth, start)
    assert sorted(rank.tolist()) == list(range(jobs))

    def value(ranks: Ints) -> float:
        return float(rates(matrix(jobs, found), np.argsort(ranks)[None])[0] @ worth)

    assert value(rank) >= value(start) * (1 - 1e-3)


@pytest.mark.parametrize("seed", range(10))
def test_search_comes_near_the_best_of_all_orders(seed: int) -> None:
    rng = np.random.default_rng(seed)
    jobs = 6
    alone = IsolatedTimes(*(rng.uniform(0.2, 2.0, jobs) for _ in range(3)))
    link = rng.integers(0, 2, jobs)
    found = losses(alone, pairs_on_links(np.arange(jobs), link, alone.comm, jobs))
    worth = rng.uniform(1, 10, jobs)
    values = rates(matrix(jobs, found), all_orders(jobs)) @ worth
    rank = best(jobs, found, worth, np.arange(jobs))
    assert values[np.all(all_orders(jobs) == np.argsort(rank), axis=1)][0] == pytest.approx(
        values.max()
    )
    pairs, lost = (found.one, found.other), (found.one_below, found.other_below)
    searched = InsertionSearch(jobs, pairs, lost, worth, np.argsort(np.argsort(-worth))).run()
    own = values[np.all(all_orders(jobs) == np.argsort(searched), axis=1)][0]
    assert own >= 0.9 * values.max()
