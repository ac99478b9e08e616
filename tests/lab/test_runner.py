"""Times alone, without a network: what each job is asked to do."""

from __future__ import annotations

import pytest

from hostcc.lab import phase, runner
from hostcc.lab.dumbbell import Dumbbell
from hostcc.lab.launch import Iteration
from hostcc.lab.scenario import from_document
from hostcc.lab.scenario_hosts import hosts_of
from hostcc.lab.variants import Variant

pytestmark = pytest.mark.unit


def test_a_job_alone_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """It pauses for ten seconds in mid-run, but not in its time alone, however long that is."""
    pauses = {"change_at_iteration": 3, "change_pause_ms": 10_000}
    job = {"name": "a", "compute_ms": 100, "comm_ms": 50, **pauses}
    wanted = from_document({"job": [job, {**job, "name": "b", "change_at_iteration": 0}]}, "test")

    def run(_: object, plan: phase.PhasePlan, __: object) -> phase.PhaseResult:
        (job,) = plan.jobs
        took = [
            0.15 + (number == job.change_at_iteration) * job.change_pause_ms / 1e3
            for number in range(1, plan.iterations + 1)
        ]
        steps = tuple(Iteration(number, one, 0.0, one) for number, one in enumerate(took, 1))
        return phase.PhaseResult(iterations={job.name: steps})

    monkeypatch.setattr(phase, "run", run)
    fabric = Dumbbell(wanted.fabric, hosts_of(wanted))
    alone = runner._run_alone(fabric, wanted, Variant("cubic"), lambda *_: None)
    assert alone == {"a": [0.15] * 8, "b": [0.15] * 8}
