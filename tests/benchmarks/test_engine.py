"""The clusters whose simulation is timed, and the record of tiny ones."""

from __future__ import annotations

import argparse

import pytest

from benchmarks import engine, engine_cases, record
from benchmarks.context import Context
from hostcc.sim.cluster_simulation import simulate as scalar
from hostcc.sim.flowsim.run import simulate
from hostcc.sim.flowsim.workload import Fabric, pack

pytestmark = pytest.mark.unit


def test_clusters_are_as_described() -> None:
    case = engine_cases.steady(4, 3, 2, 5.0, 1.0)
    assert engine_cases.steady(4, 3, 2, 5.0, 1.0) == case
    assert sum(len(job.flows) for job in case.jobs) == case.active == 48
    wanted = scalar(case.jobs, case.capacity, engine_cases.controller, 0.0, 5.0)
    found = simulate(Fabric.of(case.capacity), pack(case.jobs), 5.0, engine_cases.controller)
    assert found.iterations.tolist() == wanted.iterations
    assert found.compute_seconds == pytest.approx(wanted.compute_seconds, rel=1e-9)
    days = engine_cases.trace(1.0, 60, 30, 2)
    assert sum(bool(job.flows) for job in days.jobs) > 5
    assert all(job.iterations for job in days.jobs)


def test_record(monkeypatch: pytest.MonkeyPatch) -> None:
    tiny = engine_cases.steady(4, 3, 2, 5.0, 0.1)
    monkeypatch.setattr(engine, "steady", lambda *_: tiny)
    monkeypatch.setattr(engine, "ProcessPoolExecutor", _Here)
    monkeypatch.setattr(engine, "trace", lambda *_: engine_cases.trace(0.01, 20, 10, 0))
    found = engine.run(argparse.Namespace(seed=0, days=1), Context(2, None))
    assert len(found.rows) == 5
    assert len(found.goals) == 6
    assert record.decode(record.encode(found)).rows == found.rows


class _Here:
    """Runs what is submitted in this process."""

    def __init__(self, *_: object, **__: object) -> None: ...

    def __enter__(self) -> _Here:
        return self

    def __exit__(self, *_: object) -> None: ...

    def submit(self, function: object, *args: object) -> _Here:
        assert callable(function)
        self.answer = function(*args)
        return self

    def result(self) -> object:
        return self.answer
