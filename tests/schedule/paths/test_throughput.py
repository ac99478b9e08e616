"""The predicted throughput: alone, in collision, and under overload."""

from __future__ import annotations

import pytest

from hostcc.schedule.paths.throughput import throughput
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


def test_no_jobs_and_no_traffic() -> None:
    nobody = problems.problem([])
    assert throughput(nobody, nobody.flow_path) == 0
    idle = problems.problem([{"compute": 2.0, "work": 3.0, "flows": [(0, 1, 0.0, "s0")]}])
    assert throughput(idle, idle.flow_path) == pytest.approx(1.5)
