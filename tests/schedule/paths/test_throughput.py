"""The predicted throughput: alone, in collision, and under overload."""

from __future__ import annotations

import numpy as np
import pytest

from hostcc.schedule.intensity import Crossings
from hostcc.schedule.order import Losses
from hostcc.schedule.pair_loss import IsolatedTimes
from hostcc.schedule.paths.throughput import throughput, under_order
from tests.schedule.paths import problems

pytestmark = pytest.mark.unit


def test_jobs_that_never_meet_run_as_alone() -> None:
    made = problems.problem([{"compute": 1.0, "flows": [(0, 1, 0.5, f"s{n}")]} for n in range(2)])
    assert throughput(made, made.flow_path) == pytest.approx(2 / 1.5)


def test_an_overloaded_link_carries_its_capacity_within_a_per_cent() -> None:
    """Equal jobs of 0.5 s of traffic each: a second of the link is two iterations at most."""
    jobs = [{"compute": 0.5, "flows": [(0, 1, 0.5, "s0")]} for _ in range(6)]
    made = problems.problem(jobs)
    assert throughput(made, made.flow_path) <= 2 * 1.01


def test_the_first_jobs_of_an_overloaded_link_are_served_whatever_follows() -> None:
    most = {"compute": 0.5, "work": 100.0, "flows": [(0, 1, 0.5, "s0")]}
    rest = [{"compute": 0.5, "work": 0.01, "flows": [(0, 1, 0.5, "s0")]} for _ in range(20)]
    made = problems.problem([*rest, most])
    assert throughput(made, made.flow_path) == pytest.approx(100, rel=0.002)


@pytest.mark.parametrize(
    ("seconds", "rank", "served"),
    [
        ((0.1, 0.1), (0, 1), 4 + 2 / 2),  # the lower job is twice as slow below the other
        ((0.1, 0.1), (1, 0), 4 / 4 + 2),  # four times
        ((0.9, 0.5), (0, 1), 4 + 2 * 0.2),  # a tenth of the link is left for a half
    ],
)
def test_an_order_serves_what_losses_and_links_allow(
    seconds: tuple[float, float], rank: tuple[int, int], served: float
) -> None:
    times = IsolatedTimes(np.full(2, 0.1), np.full(2, 0.1), np.full(2, 0.9))  # a second in all
    waiting = Crossings(np.array([0, 1]), np.zeros(2, np.int64), np.array(seconds))
    lost = Losses(np.array([0]), np.array([1]), np.array([1.0]), np.array([3.0]))
    found = under_order(times, np.array([4.0, 2.0]), waiting, lost, np.array(rank))
    assert found == pytest.approx(served)


def test_no_jobs_and_no_traffic() -> None:
    nobody = problems.problem([])
    assert throughput(nobody, nobody.flow_path) == 0
    idle = problems.problem([{"compute": 2.0, "work": 3.0, "flows": [(0, 1, 0.0, "s0")]}])
    assert throughput(idle, idle.flow_path) == pytest.approx(1.5)
