"""The benchmark of gates: its cases exist, and its goals judge what they say."""

from __future__ import annotations

import pytest

from benchmarks.record import Spread, spread
from benchmarks.shifts import CASES, VARIANTS, judge
from hostcc.lab import scenario
from hostcc.lab.leafspine_scenario import LeafSpineScenario
from hostcc.lab.variants import resolve

pytestmark = pytest.mark.unit


def cells(mean: float, rest: float, p99: float) -> dict[str, Spread]:
    return {name: spread([value]) for name, value in zip(
        ("mean", "rest", "p99_rest"), (mean, rest, p99), strict=True
    )}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_cases_are_of_scenarios_of_two_jobs_that_fit(name: str) -> None:
    found = scenario.load(scenario.find(CASES[name][0]))
    assert isinstance(found, LeafSpineScenario)
    assert found.gossip
    shares = [job.comm_ms / (job.compute_ms + job.comm_ms) for job in found.job]
    assert sum(shares) < 0.85
    with_gates, without, _ = resolve(VARIANTS, found)
    assert with_gates.agent is not None
    assert without.agent is not None
    assert "shifts" not in with_gates.agent
    assert without.agent["shifts"] == {"enabled": False}


def test_goals() -> None:
    usual = cells(1.3, 1.3, 1.5)
    good = judge("rings-1", {"hostcc": cells(1.05, 1.02, 1.07), "cubic": usual})
    assert [one.met for one in good] == [True, True, True]
    bad = judge("rings-1", {"hostcc": cells(1.4, 1.04, 1.09), "cubic": usual})
    assert [one.met for one in bad] == [False, False, False]
    assert len(judge("ddp", {"hostcc": cells(1.0, 1.0, 1.0)})) == 2
    assert judge("ddp", {"cubic": usual}) == []
