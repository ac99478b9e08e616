"""Processor time for analyses: accounts, and what each job has of its own."""

from __future__ import annotations

import numpy as np
import pytest

from hostcc.daemon.profiling import analysis_budget as b
from hostcc.daemon.profiling.analysis_budget import (
    ALLOWANCE_S,
    CONFIDENT_ALLOWANCE_S,
    MAX_SAVED_S,
    Account,
    AnalysisBudget,
    AnalysisRequest,
)
from hostcc.daemon.profiling.tracks import Track
from hostcc.measure.series import NS, ByteSeries, empty, part
from tests.measure.jobs import MS, regular

pytestmark = pytest.mark.unit


def left_s(budget: AnalysisBudget, account: Account) -> float:
    """What an account holds, found by spending it."""
    step_s, spent_s = MAX_SAVED_S / 1000, 0.0
    while budget.has(account):
        budget.charge(AnalysisRequest(Track("other"), empty(MS), False, account), step_s)
        spent_s += step_s
    return spent_s


def charged(budget: AnalysisBudget, track: Track, cost_s: float) -> float:
    """What a thorough analysis takes from the account for learning, seconds."""
    before_s = budget._saved_s[Account.LEARNING]
    budget.charge(AnalysisRequest(track, empty(MS), True, Account.LEARNING), cost_s)
    return before_s - budget._saved_s[Account.LEARNING]


def test_first_analyses_are_a_jobs_own() -> None:
    budget, track = AnalysisBudget(), Track("a")
    assert charged(budget, track, ALLOWANCE_S / 2) == 0.0
    assert charged(budget, track, ALLOWANCE_S) == pytest.approx(ALLOWANCE_S / 2)
    assert budget.own_s("a") == 0.0
    assert charged(budget, track, 0.01) == pytest.approx(0.01)
    assert budget.own_s("b") == ALLOWANCE_S


def test_of_a_job_that_is_known_well_little_time_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    budget, track = AnalysisBudget(), Track("a")
    assert charged(budget, track, 0.001) == 0.0
    assert budget.own_s("a") == ALLOWANCE_S - 0.001
    monkeypatch.setattr(Track, "confident", True)
    assert charged(budget, track, 0.001) == 0.0
    assert budget.own_s("a") == CONFIDENT_ALLOWANCE_S


@pytest.mark.parametrize("thorough", [False, True])
@pytest.mark.parametrize("passed_s", [20, 70])
def test_a_job_whose_pattern_is_lost_has_an_allowance_again_but_not_at_once(
    passed_s: int, thorough: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(b, "ALLOWANCE_AGAIN_S", 60.0)
    budget, track, made = AnalysisBudget(), Track("a"), regular(100, passed_s * 10)

    def analysed(new: ByteSeries, cost_s: float) -> None:
        track.take(new)
        bins = track.collect()
        track.analyse(bins)
        budget.charge(AnalysisRequest(track, bins, thorough, Account.LEARNING), cost_s)

    for at in range(0, len(made), 2000):
        analysed(part(made, at, at + 2000), 0.0)
    assert track.pattern()[1].periodic
    budget.charge(AnalysisRequest(track, empty(MS), True, Account.KNOWN), 1.0)
    assert budget.own_s("a") == 0.0
    silence = np.zeros(1000, np.int64)
    at_ns = passed_s * NS
    while track.pattern()[1].periodic:
        analysed(ByteSeries(MS, at_ns, silence, silence), 0.0)
        at_ns += NS
    assert budget.own_s("a") == (ALLOWANCE_S if passed_s > 60 else 0)
    budget.keep(["b"])
    assert budget.own_s("a") == ALLOWANCE_S


def test_accounts_are_apart_and_save_up_a_little() -> None:
    budget = AnalysisBudget()
    budget.save_up(NS)
    assert left_s(budget, Account.EARLY) == pytest.approx(MAX_SAVED_S, rel=0.01)
    assert not budget.has(Account.EARLY)
    assert budget.has(Account.KNOWN)
    budget.save_up(11 * NS)
    assert left_s(budget, Account.EARLY) == pytest.approx(10 * Account.EARLY.value, rel=0.05)
    budget.save_up(1000 * NS)
    assert left_s(budget, Account.EARLY) == pytest.approx(MAX_SAVED_S, rel=0.01)


def test_what_may_not_wait_is_charged_to_nobody() -> None:
    budget = AnalysisBudget()
    budget.charge(AnalysisRequest(Track("a"), empty(MS), False, None), 1.0)
    assert all(budget.has(account) for account in Account)
    assert budget.own_s("a") == ALLOWANCE_S
