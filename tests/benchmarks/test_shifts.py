"""The benchmark of gates: its cases exist, and its goals judge what they say."""

from __future__ import annotations

import pytest

from benchmarks.record import Spread, spread
from benchmarks.shift_cases import CASES, scenario_of
from benchmarks.shifts import USUAL, VARIANTS, judge
from hostcc.lab.leafspine_scenario import LeafSpineScenario
from hostcc.lab.variants import resolve

pytestmark = pytest.mark.unit


def cells(mean: float, rest: float, p99: float) -> dict[str, Spread]:
    return {name: spread([value]) for name, value in zip(
        ("mean", "rest", "p99_rest"), (mean, rest, p99), strict=True
    )}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_cases_are_of_jobs_that_fit_where_a_mean_is_expected(name: str) -> None:
    found = scenario_of(name)
    assert isinstance(found, LeafSpineScenario)
    assert found.gossip
    shares = [job.comm_ms / (job.compute_ms + job.comm_ms) for job in found.job]
    links: dict[int, float] = {}
    for job, share in zip(found.job, shares, strict=True):
        for leaf in {(int(host[1:]) - 1) // found.fabric.hosts_per_leaf for host in job.on}:
            links[leaf] = links.get(leaf, 0.0) + share
    fits = max(links.values()) < 0.95
    assert fits or CASES[name].goal.mean is None
    with_gates, without, _ = resolve(VARIANTS, found)
    assert with_gates.agent is not None
    assert without.agent is not None
    assert "shifts" not in with_gates.agent
    assert without.agent["shifts"] == {"enabled": False}


def test_shared_links_are_those_of_a_chain() -> None:
    found = scenario_of("chain")
    assert isinstance(found, LeafSpineScenario)
    leaves = [
        {(int(host[1:]) - 1) // found.fabric.hosts_per_leaf for host in job.on} for job in found.job
    ]
    assert [len(one & leaves[1]) for one in leaves] == [1, 2, 1]
    assert not leaves[0] & leaves[2]


def test_goals() -> None:
    assert set(USUAL) <= set(CASES)
    usual = cells(1.3, 1.3, 1.5)
    good = judge("rings-1", {"hostcc": cells(1.05, 1.02, 1.07), "cubic": usual})
    assert [one.met for one in good] == [True, True, True]
    bad = judge("rings-1", {"hostcc": cells(1.4, 1.04, 1.09), "cubic": usual})
    assert [one.met for one in bad] == [False, False, False]
    assert len(judge("ddp", {"hostcc": cells(1.0, 1.0, 1.0)})) == 2
    assert judge("ddp", {"cubic": usual}) == []


def test_jobs_that_do_not_fit_are_held_against_the_best_of_the_others() -> None:
    others = {"cubic": cells(1.3, 1.3, 1.5), "no-shifts": cells(1.2, 1.2, 1.4)}
    good = judge("unfit-shares", {"hostcc": cells(1.2, 1.21, 1.9), **others})
    assert [(one.met, "best" in one.goal) for one in good] == [(True, False), (True, True)]
    bad = judge("unfit-shares", {"hostcc": cells(1.2, 1.22, 1.0), **others})
    assert [one.met for one in bad] == [True, False]
