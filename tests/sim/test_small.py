"""The family of small clusters."""

from __future__ import annotations

import pytest

from hostcc.schedule.problem import build
from hostcc.sim.small import GPU_COUNTS, JOB_COUNT, MAX_CHOICES, small_case, with_errors
from hostcc.sim.study import study

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("index", range(20))
def test_as_described(index: int) -> None:
    view = small_case(0, index)
    assert small_case(0, index) == view
    assert len(view.jobs) == JOB_COUNT
    assert 10 <= len(view.members) <= 20
    assert {rate for _, rate in view.links} <= {1.0}
    for job in view.jobs:
        assert job.gpus in {size for size, _ in GPU_COUNTS}
        assert 0.4 <= job.compute_s <= 2.0
        assert 0.25 <= job.comm_start_s / job.compute_s <= 1.0
        assert job.work == job.gpus * job.compute_s
    several = {(table.src, table.dst) for table in view.tables if len(table.paths) > 1}
    assert sum((flow.src, flow.dst) in several for flow in view.flows) <= MAX_CHOICES
    build(view)


def test_cases_and_families_differ() -> None:
    assert len({small_case(seed, index) for seed in range(2) for index in range(5)}) == 10


def test_errors_of_measurement_are_bounded() -> None:
    view = small_case(0, 4)
    off = with_errors(view, 0.2, 0, 4)
    assert with_errors(view, 0.2, 0, 4) == off
    assert off != view
    for job, other in zip(view.jobs, off.jobs, strict=True):
        assert abs(other.compute_s / job.compute_s - 1) <= 0.2
        assert abs(other.work / job.work - 1) <= 0.2
        assert other.comm_start_s <= other.compute_s
    for flow, seen in zip(view.flows, off.flows, strict=True):
        assert abs(seen.bytes / flow.bytes - 1) <= 0.2 + 1e-9


def test_nothing_is_better_than_the_optimum() -> None:
    result = study(0, 8, [0.0, 0.2])
    assert 0.5 < result.optimum <= 1.01
    for (_, stage, _), share in result.shares.items():
        # The pipeline may share levels, which the optimum of orders does not.
        assert 0 < share <= (1.05 if stage == "pipeline" else 1 + 1e-9)
