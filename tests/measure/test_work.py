"""Work of jobs: attribution, FLOP per iteration, and what is said when it is unknown."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostcc.measure.gpu.readings import Gpu, Pipe, Reading, Source
from hostcc.measure.work import Interval, Work, activity, attribute, work_per_iteration

pytestmark = pytest.mark.unit

GPU = Gpu("GPU-0", "H100", (9, 0), 100, 1e9)
OTHER = Gpu("GPU-1", "H100", (9, 0), 100, 1e9)


def interval(start: float, end: float, flop: float | None, busy: float | None = 1.0) -> Interval:
    source = Source.UNKNOWN if flop is None else Source.COUNTERS
    return Interval(start, end, flop, busy, source, ("GPU-0",))


def steps(flops: list[float | None], length: float = 0.5) -> list[Interval]:
    return [interval(i * length, (i + 1) * length, flop) for i, flop in enumerate(flops)]


def test_a_job_with_two_gpus_and_a_neighbour() -> None:
    pipes = {Pipe.TENSOR: 0.5}
    readings = [
        Reading(GPU, 0.0, 1.0, 1e9, 0.8, pipes, pids=(1,)),
        Reading(OTHER, 0.1, 1.1, 1e9, 0.4, pipes, pids=(2, 3), pid_use={2: 1, 3: 1}),
    ]
    done = attribute(readings, {1: "a", 2: "a", 3: "b"})
    one = 0.5 * 4096 * 100 * 1e9
    assert done["a"].flop == pytest.approx(1.5 * one)
    assert done["a"].busy == pytest.approx((0.8 + 0.2) / 2)
    assert (done["a"].start_s, done["a"].end_s) == (0.0, 1.1)
    assert done["a"].gpus == ("GPU-0", "GPU-1")
    assert done["b"].flop == pytest.approx(0.5 * one)
    assert attribute(readings, {}) == {}


def test_one_unknown_gpu_makes_the_sum_unknown() -> None:
    readings = [
        Reading(GPU, 0.0, 1.0, 1e9, 0.8, {Pipe.TENSOR: 0.5}, pids=(1,)),
        Reading(Gpu("?"), 0.0, 1.0, pids=(1,)),
    ]
    done = attribute(readings, {1: "a"})["a"]
    assert (done.flop, done.busy, done.source) == (None, None, Source.UNKNOWN)
    assert work_per_iteration([done], period_s=1).why == "the driver does not tell enough"


def test_unknown_work_is_assumed_by_the_models_of_the_jobs_gpus() -> None:
    readings = [
        Reading(Gpu("GPU-0", "NVIDIA H100 80GB HBM3"), 0.0, 1.0, pids=(1,)),
        Reading(Gpu("GPU-1", "NVIDIA H100 80GB HBM3"), 0.0, 1.0, pids=(1,)),
    ]
    done = attribute(readings, {1: "a"})["a"]
    work = work_per_iteration([done], period_s=1)
    assert work.flop is None
    assert work.assumed_flop_per_s == pytest.approx(0.4 * 2 * 989e12)
    configured = work_per_iteration([done], period_s=1, assumed_flops=3e14)
    assert configured.assumed_flop_per_s == 6e14
    assert work_per_iteration([done], declared=1e12).assumed_flop_per_s == 0.0


def test_one_unknown_model_makes_the_sum_unknown() -> None:
    readings = [
        Reading(Gpu("GPU-0", "NVIDIA H100 80GB HBM3"), 0.0, 1.0, pids=(1,)),
        Reading(Gpu("GPU-1", "?"), 0.0, 1.0, pids=(1,)),
    ]
    done = attribute(readings, {1: "a"})["a"]
    assert (done.peak_flop_per_s, work_per_iteration([done]).assumed_flop_per_s) == (None, 0.0)


def test_a_job_without_gpus_in_sight_is_assumed_only_by_configuration() -> None:
    assert work_per_iteration([]).assumed_flop_per_s == 0.0
    assert work_per_iteration([], assumed_flops=1e14).assumed_flop_per_s == 8e14


def test_by_period() -> None:
    work = work_per_iteration(steps([10.0, 0.0, 10.0, 0.0]), period_s=2.0)
    assert work == Work(20.0, Source.COUNTERS, ("GPU-0",))
    with_a_gap = work_per_iteration(steps([10.0, None, 10.0, None]), period_s=2.0)
    assert with_a_gap.flop == pytest.approx(40.0)


def test_by_boundaries() -> None:
    series = steps([8.0, 2.0, 8.0, 2.0, 8.0, 2.0])
    exact = work_per_iteration(series, period_s=99.0, boundaries_s=[0.25, 1.25, 2.25])
    assert exact.flop == pytest.approx(10.0)
    outside = work_per_iteration(series, period_s=1.0, boundaries_s=[-5.0, 0.5, 77.0])
    assert outside.flop == pytest.approx(10.0)  # one boundary is none: by period


def test_declared_wins_and_is_checked() -> None:
    assert work_per_iteration([], declared=5e15) == Work(5e15, Source.DECLARED)
    assert work_per_iteration(steps([1.0]), declared=3.0).flop == 3.0
    for wrong in (0.0, -1.0, float("nan"), float("inf"), 1e31):
        refused = work_per_iteration([], declared=wrong)
        assert refused.flop is None
        assert refused.why.startswith("flops: expected more than 0")


def test_unknown_says_why() -> None:
    assert work_per_iteration([], why="no NVIDIA driver") == Work(
        None, Source.UNKNOWN, (), "no NVIDIA driver"
    )
    assert "no process" in work_per_iteration([], period_s=1.0).why
    assert "period" in work_per_iteration(steps([1.0])).why
    assert "period" in work_per_iteration(steps([1.0]), period_s=float("nan")).why


def test_activity_over_time() -> None:
    series = activity([interval(0, 1, 1.0, 0.25), interval(1, 2, None, None)])
    np.testing.assert_array_equal(series.start_s, [0, 1])
    np.testing.assert_array_equal(series.end_s, [1, 2])
    np.testing.assert_array_equal(series.busy, [0.25, np.nan])
    assert activity([]).busy.shape == (0,)


@given(
    st.lists(st.floats(0, 1e18), min_size=1, max_size=30),
    st.lists(st.floats(), max_size=10),
    st.floats(0.01, 100),
)
def test_it_never_exceeds_what_was_done(
    flops: list[float], marks: list[float], period: float
) -> None:
    known = steps(list(flops))
    work = work_per_iteration(known, boundaries_s=marks)
    assert work.flop is None or -1e-6 <= work.flop <= sum(flops) * (1 + 1e-9)
    by_period = work_per_iteration(known, period_s=period).flop
    assert by_period == pytest.approx(sum(flops) / (len(flops) * 0.5) * period)
