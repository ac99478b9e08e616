"""Figures and judgement of the leaf-spine benchmark, from results made here."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from benchmarks import leafspine
from benchmarks.context import Context
from benchmarks.leafspine_figures import (
    Figures,
    best_seconds,
    figures,
    intensive,
    over_jobs,
    ratios,
)
from hostcc.cli.main import build_parser
from hostcc.errors import InputError
from hostcc.lab.flowreport import FlowResult, SettledResult
from hostcc.lab.leafspine_scenario import LeafSpineScenario
from hostcc.lab.variants import Variant
from tests.benchmarks.results import run

pytestmark = pytest.mark.unit


def made(a: float | None, b: float | None, **more: Any) -> Figures:
    plain = Figures({"a": a, "b": b}, {}, 0.5, 4.0, 0, 0, 0.0, 0, 1.0)
    return msgspec.structs.replace(plain, **more)


def test_iterations_count_once_the_time_to_settle_is_over() -> None:
    wanted = leafspine.load("leafspine-rings")
    entry = run({f"ring-{n}": [0.4] * 10 + [0.25] * 10 for n in range(1, 5)})
    flows = [
        FlowResult("x", src, dst, [spine], [0], [])
        for src, dst, spine in (("h1", "h3", 1), ("h2", "h4", 1), ("h3", "h1", 1), ("h1", "h3", 2))
    ]
    entry = msgspec.structs.replace(
        entry,
        flows=flows,
        resets=2,
        settled=[SettledResult("ring-1 begins", 0.0, 3.0), SettledResult("stop-job x", 9.0, None)],
    )
    found = figures(wanted, entry, 3.9, 2)
    assert found.settled["ring-1"] == pytest.approx(0.25)
    assert found.first["ring-1"] == pytest.approx(0.4)
    assert found.settled_after_s == 3.0
    assert found.resets == 2
    assert found.meeting == 2  # both from the first leaf over the first spine
    assert found.utilisation == pytest.approx(0.12 / 0.25)


def test_a_job_without_an_iteration_is_worse_than_any() -> None:
    best = best_seconds([made(0.2, 0.4), made(0.2, 0.4)])
    assert best == {"a": 0.2, "b": 0.4}
    starved = [made(0.2, None)]
    assert ratios(starved, best, "b") == [None]
    mean, worst = over_jobs(starved, best)
    assert mean.median is None
    assert worst.median is None
    mean, worst = over_jobs([made(0.2, 0.6)], best)
    assert mean.median == pytest.approx(1.25)
    assert worst.median == pytest.approx(1.5)


def test_goals() -> None:
    best = {"a": 0.2, "b": 0.4}
    good = leafspine.judge("x", [made(0.205, 0.41)], best, {"a": 0.1}, shared=False)
    assert all(goal.met for goal in good)
    worse = made(0.3, None, settled_after_s=11.0, resets=1)
    bad = leafspine.judge("x", [worse], best, {"a": 0.2}, shared=False)
    assert not any(goal.met for goal in bad)


def test_goals_where_links_have_to_be_shared() -> None:
    best = {"a": 0.4, "b": 0.4}
    good = leafspine.judge("x", [made(0.205, 0.79)], best, {"a": 0.2}, shared=True)
    assert all(goal.met for goal in good)
    bad = leafspine.judge("x", [made(0.3, 0.81)], best, {"a": 0.2}, shared=True)
    assert [goal.met for goal in bad[:2]] == [False, False]


def test_the_most_intensive_job_has_most_work_per_second_of_communication() -> None:
    assert intensive(leafspine.load("crux-20")) == "large"
    # Results weigh work that agents are not told; where none is given, all jobs do as much.
    assert intensive(leafspine.load("crux-20", declare_flops=False)) == "large"
    assert intensive(leafspine.load("eight-rings")) == "short-1"


def test_jobs_leave_by_themselves_and_other_fabrics_are_refused() -> None:
    wanted = leafspine.timed(leafspine.load("spine-failure"), 5)
    assert [spec.run for spec in wanted.action[-4:]] == [f"stop-job ring-{n}" for n in range(1, 5)]
    with pytest.raises(InputError, match="leaf-spine"):
        leafspine.load("two-jobs")


def test_runs_without_declared_work_have_rows_of_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = {}

    def measure(name: str, wanted: LeafSpineScenario, variant: Variant, *_: object) -> Figures:
        seen[name, variant.name] = {job.declare_flops for job in wanted.job}
        return Figures({job.name: 0.5 for job in wanted.job}, {}, 0.5, 4.0, 3, 0, 0.0, 0, 1.0)

    monkeypatch.setattr(leafspine, "measure", measure)
    monkeypatch.setattr(leafspine, "alone", lambda *_: leafspine.TimesAlone({"large": 0.4}))
    words = ["leafspine", "--scenarios", "crux-20", "--variants", "best,all"]
    for more, name in ((), "crux-20"), (("--no-flops",), "crux-20-no-flops"):
        args = build_parser("bench").parse_args(["bench", *words, *more])
        found = leafspine.run(args, Context(1, None))
        assert {row["scenario"] for row in found.rows} == {name}
        assert found.parameters["no_flops"] == bool(more)
        assert any("its time alone" in goal.goal for goal in found.goals) == (not more)
    assert seen == {
        ("crux-20", "best"): {True},
        ("crux-20", "all"): {True},
        ("crux-20-no-flops", "best"): {False},
        ("crux-20-no-flops", "all"): {False},
    }
