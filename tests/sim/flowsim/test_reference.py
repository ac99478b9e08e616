"""The compiled simulation and the scalar one agree on random clusters and the golden schedules."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings

from hostcc.sim.cluster_simulation import History, constant
from hostcc.sim.cluster_simulation import simulate as scalar
from hostcc.sim.flowsim.run import Options, Outcome, simulate
from hostcc.sim.flowsim.workload import Fabric, pack
from hostcc.sim.periodic import SimJob
from tests.schedule.exact import cases
from tests.sim.random_clusters import Case, Scripted, clusters
from tests.sim.test_cluster_simulation import jobs_of

pytestmark = pytest.mark.unit


def assert_same(found: Outcome, wanted: History) -> None:
    assert found.iterations.tolist() == wanted.iterations
    assert found.compute_seconds == pytest.approx(wanted.compute_seconds, rel=1e-9, abs=1e-9)
    assert found.carried == pytest.approx(wanted.carried, rel=1e-9, abs=1e-8)
    finished = [math.nan if when is None else when for when in wanted.finished]
    assert found.finished == pytest.approx(finished, rel=1e-9, abs=1e-9, nan_ok=True)


def assert_same_calls(found: Scripted, wanted: Scripted) -> None:
    assert [running for _, running in found.calls] == [running for _, running in wanted.calls]
    assert [now for now, _ in found.calls] == pytest.approx([now for now, _ in wanted.calls])


@settings(max_examples=1000)
@given(case=clusters())
@pytest.mark.slow
def test_random_clusters(case: Case) -> None:
    told = Scripted(case)
    wanted = scalar(
        case.jobs,
        case.capacity,
        told,
        0.0,
        case.end,
        delay=case.delay,
        ramp=case.ramp,
        tell_sending=case.tell_sending,
    )
    fabric, work = Fabric.of(case.capacity, case.delay), pack(case.jobs)
    for proved in (True, False):
        own = Scripted(case)
        options = Options(
            ramp=case.ramp,
            tell_sending=case.tell_sending,
            checked=proved,
            recorded=range(len(case.jobs)) if proved else (),
        )
        found = simulate(fabric, work, case.end, own, options)
        assert_same(found, wanted)
        assert_same_calls(own, told)
        for job in range(len(case.jobs) if proved else 0):
            times = found.recorded_end[found.recorded_job == job]
            assert times == pytest.approx(wanted.ends[job], rel=1e-9)


@pytest.mark.parametrize("case", cases("sched"))
def test_golden_schedules(case: Any) -> None:
    work, fabric = pack(jobs_of(case)), Fabric.of(list(case["links"].values()))
    stored = [one for one in case.values() if isinstance(one, dict) and "levels" in one]
    for one in [*stored, *case["named"].values()]:
        for proved in (True, False):
            options = Options(start=case["T0"], checked=proved)
            found = simulate(fabric, work, case["T"], constant(one["levels"]), options)
            assert found.compute_seconds == pytest.approx(one["compute_seconds"], abs=1e-6)
            assert found.iterations.tolist() == one["iterations_completed"]


BEFORE = SimJob(0.25, 0.0, (), start=-0.5)
"""An iteration ends at 0, before results are counted."""


@settings(max_examples=50)
@given(case=clusters())
@example(case=Case((BEFORE,), (0.5,), (0.0,), (), (1.0,), 12.0, tell_sending=False))
def test_samples_change_nothing(case: Case) -> None:
    fabric, work = Fabric.of(case.capacity, case.delay), pack(case.jobs)
    plain = simulate(fabric, work, case.end, Scripted(case), Options(ramp=case.ramp))
    times = np.linspace(0, case.end, 30)
    seen = simulate(fabric, work, case.end, Scripted(case), Options(ramp=case.ramp, samples=times))
    assert seen.iterations.tolist() == plain.iterations.tolist()
    assert seen.compute_seconds == pytest.approx(plain.compute_seconds, abs=1e-9)
    assert seen.carried == pytest.approx(plain.carried, abs=1e-8)
    assert seen.samples[-1].iterations.tolist() == plain.iterations.tolist()
    for early, late in zip(seen.samples, seen.samples[1:], strict=False):
        assert (early.compute_seconds <= late.compute_seconds + 1e-12).all()
        assert (early.carried <= late.carried + 1e-9).all()
