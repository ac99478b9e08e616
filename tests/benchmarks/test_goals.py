"""Goals: which apply, what they compare, how they are judged."""

from __future__ import annotations

import pytest

from benchmarks import goals
from benchmarks.figures import Figures
from benchmarks.record import Spread, Verdict, spread
from hostcc.lab import scenario

GOOD = {
    "mean": [1.01, 1.02, 1.01],
    "first": [1.05, 1.05, 1.05],
    "rest": [1.005, 1.004, 1.006],
    "p99_rest": [1.03, 1.04, 1.02],
    "slowest_job": [1.02, 1.02, 1.02],
    "converged_after": [2, 3, 2],
    "loss_percent": [0.0, 0.1, 0.0],
}


def cell(**changes: list[float | None]) -> dict[str, Spread]:
    values: dict[str, list[float | None]] = {**GOOD, **changes}  # type: ignore[dict-item]
    return {name: spread(runs) for name, runs in values.items()}


def judged(name: str, flows: int, **variants: dict[str, Spread]) -> dict[str, Verdict]:
    return {entry.goal: entry for entry in goals.judge(name, flows, variants, "here")}


def test_every_goal_names_figures_and_scenarios_that_exist() -> None:
    known = set(scenario.builtins())
    for goal in goals.GOALS:
        assert goal.figure in Figures.__dataclass_fields__
        assert goal.scenarios <= known


def test_a_good_run_passes_all_goals() -> None:
    found = judged("two-jobs", 8, hostcc=cell(), cubic=cell(mean=[1.4] * 3))
    assert all(entry.met and entry.passing == 3 for entry in found.values())
    assert goals.short(list(found.values())) == "PASS"
    assert "mean 1.3 times better than cubic's" in found


@pytest.mark.parametrize(
    ("changes", "missed"),
    [
        ({"mean": [1.031] * 3}, "mean <= 1.03"),
        ({"rest": [1.021] * 3}, "rest <= 1.02"),
        ({"p99_rest": [1.11] * 3}, "p99 <= 1.10"),
        ({"loss_percent": [0.5] * 3}, "loss < 0.5 %"),
        ({"converged_after": [5, 5, 5]}, "converged after <= 4 iterations"),
        ({"converged_after": [None, None, 1]}, "converged after <= 4 iterations"),
    ],
)
def test_each_bound(changes: dict[str, list[float | None]], missed: str) -> None:
    found = judged("three-jobs", 1, hostcc=cell(**changes))
    assert [entry.goal for entry in found.values() if not entry.met] == [missed]
    assert goals.short(list(found.values())) == f"FAIL: {missed}"


def test_the_median_decides_and_runs_are_counted() -> None:
    found = judged("six-jobs", 1, hostcc=cell(mean=[1.04, 1.06, 1.05]))
    entry = found["mean <= 1.05"]
    assert (entry.met, entry.passing) == (True, 2)


def test_gain_over_cubic_is_asked_with_many_flows_only() -> None:
    variants = {"hostcc": cell(), "cubic": cell(mean=[1.2] * 3)}
    assert not judged("two-jobs", 8, **variants)["mean 1.3 times better than cubic's"].met
    assert "mean 1.3 times better than cubic's" not in judged("two-jobs", 1, **variants)


def test_the_best_of_the_others_is_the_measure() -> None:
    words = "mean no worse than the best of cubic, reno, bbr"
    variants = {"hostcc": cell(), "cubic": cell(mean=[1.2] * 3), "bbr": cell(mean=[1.0] * 3)}
    assert not judged("two-jobs", 1, **variants)[words].met
    assert judged("two-jobs", 1, hostcc=cell(), cubic=cell(mean=[1.2] * 3))[words].met
    mltcp = {"hostcc": cell(), "mltcp-reno": cell(mean=[0.9] * 3)}
    assert words not in judged("two-jobs", 1, **mltcp)


def test_incompatible_jobs() -> None:
    own = cell(mean=[1.43] * 3, slowest_job=[1.6] * 3)
    found = judged("two-heavy", 8, hostcc=own, cubic=cell(mean=[1.41] * 3, slowest_job=[1.42] * 3))
    assert found["mean <= 1.02 of the best of cubic, reno, bbr"].met
    assert not found["no job starves: the slowest <= 1.10 of cubic's slowest"].met
    assert len(found) == 2


def test_jobs_that_are_not_periodic_are_held_against_cubic() -> None:
    cubic = cell(mean=[1.5] * 3, slowest_job=[1.5] * 3)
    good = cell(mean=[1.52] * 3, slowest_job=[1.6] * 3)
    assert all(v.met for v in judged("irregular", 8, hostcc=good, cubic=cubic).values())
    bad = judged("irregular", 8, hostcc=cell(mean=[1.54] * 3, slowest_job=[1.7] * 3), cubic=cubic)
    assert len(bad) == 2
    assert not any(v.met for v in bad.values())


def test_nothing_is_judged_without_hostcc_or_goals() -> None:
    assert judged("two-jobs", 1, cubic=cell()) == {}
    assert judged("with-bulk", 1, hostcc=cell()) == {}
    assert goals.short([]) == ""
