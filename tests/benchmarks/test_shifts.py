"""The benchmark of gates: its cases exist, and its goals judge what they say."""

from __future__ import annotations

import argparse

import pytest

from benchmarks import shifts
from benchmarks.context import Context
from benchmarks.record import Spread, spread
from benchmarks.shift_cases import CASES, CHANGE_ITERATION, scenario_of
from benchmarks.shifts import USUAL, VARIANTS, held, judge, p99_alone
from hostcc.errors import InputError
from hostcc.lab.leafspine_scenario import LeafSpineScenario
from hostcc.lab.results import JobResult, RunResult, VariantResult
from hostcc.lab.statistics import summarise
from hostcc.lab.variants import resolve
from hostcc.schedule.cassini import compatibility
from hostcc.schedule.cassini.circle import Pattern

pytestmark = pytest.mark.unit


def cells(mean: float, held: float, p99: float) -> dict[str, Spread]:
    return {name: spread([value]) for name, value in zip(
        ("mean", "held", "p99_held"), (mean, held, p99), strict=True
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


@pytest.mark.parametrize(
    ("number", "score"), {1: 1.0, 2: 1.0, 3: 0.9, 4: 0.8, 5: 0.6}.items()
)  # as published
def test_snapshots_fit_together_as_published(number: int, score: float) -> None:
    found = scenario_of(f"snapshot-{number}")
    assert isinstance(found, LeafSpineScenario)
    link, rates = found.fabric.rate_mbit, found.fabric.host_mbit
    patterns = []
    for at, job in enumerate(found.job):
        rate = rates[at] if isinstance(rates, tuple) else link
        send_s = job.comm_ms / 1e3 * link / rate
        period_s = job.compute_ms / 1e3 + send_s
        patterns.append(Pattern(job.name, period_s, ((0.0, send_s, rate),)))
    assert compatibility.fit(patterns, link).score == pytest.approx(score, abs=0.06)


def test_shared_links_are_those_of_a_chain() -> None:
    found = scenario_of("chain")
    assert isinstance(found, LeafSpineScenario)
    leaves = [
        {(int(host[1:]) - 1) // found.fabric.hosts_per_leaf for host in job.on} for job in found.job
    ]
    assert [len(one & leaves[1]) for one in leaves] == [1, 2, 1]
    assert not leaves[0] & leaves[2]


def run_of(*turns_from_s: float | None) -> RunResult:
    """Jobs alone 0.1 s: 14 iterations of twice that, then ten as alone, the last 50 % longer."""
    seconds = [0.2] * 14 + [0.1] * 9 + [0.15]
    return RunResult(
        0.0, [job_of(seconds, 0.1, since) for since in turns_from_s], None, {}, 0, [], [], [], None
    )


def test_what_a_job_varies_by_itself() -> None:
    known = {"steady": [0.2] * 8, "unsteady": [0.2] * 7 + [0.3]}
    found = p99_alone(VariantResult("hostcc", {"steady": 0.2, "unsteady": 0.2}, known, []))
    assert found == pytest.approx(1.465)
    assert p99_alone(VariantResult("hostcc", {}, {}, [])) is None


def job_of(seconds: list[float], alone_s: float, turns_from_s: float | None = None) -> JobResult:
    starts = [sum(seconds[:at]) for at in range(len(seconds))]
    summary = summarise(seconds, alone_s, alone_s)
    return JobResult("job", summary, seconds, starts, 0, 0, turns_from_s)


def run_with(*seconds: list[float]) -> RunResult:
    """Jobs that take 0.2 s alone."""
    jobs = [job_of(one, 0.2) for one in seconds]
    return RunResult(0.0, jobs, None, {}, 0, [], [], [], None)


def test_a_case_in_which_nothing_can_change_is_refused() -> None:
    """Its figures would be over times alone of jobs that never were."""
    args = argparse.Namespace(
        cases=("rings-1", "doubles"), iterations=70, alone=8, variants=("cubic",)
    )
    with pytest.raises(InputError, match="expected more than 70 with doubles"):
        shifts.run(args, Context(1, None))


def test_iterations_count_once_all_jobs_take_turns() -> None:
    taken = held(
        run_of(0.5, 1.7), CASES["rings-1"]
    )  # in the ninth iteration; five more do not count
    assert taken.turns_from_s == 1.7
    assert taken.held == pytest.approx(1.05)
    assert taken.p99_held == pytest.approx(1.455)
    for none in (run_of(0.5, None), run_of(None, None)):
        assert held(none, CASES["rings-1"]).turns_from_s is None
        assert held(none, CASES["rings-1"]).held == pytest.approx((4 * 2 + 9 + 1.5) / 14)
    assert held(run_of(99.0), CASES["rings-1"]).held == pytest.approx(1.5)  # too late: the last one


def test_after_a_change_only_what_follows_counts() -> None:
    seconds = [0.2] * (CHANGE_ITERATION - 1) + [0.6] * 10 + [0.3] * 10
    run = run_with(seconds, [0.2] * 80)
    for name, ratios in {"doubles": (0.3 / 0.22, 1.0), "pauses": (1.5, 1.0)}.items():
        assert held(run, CASES[name]).held == pytest.approx(sum(ratios) / 2), name


def test_a_job_that_has_left_does_not_count() -> None:
    gone = run_with([0.2] * 80, [0.4] * (CHANGE_ITERATION // 2))
    assert held(gone, CASES["leaves"]).held == pytest.approx(1.0)


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
