"""The plan that is followed, in words."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import convert

from hostcc.answers.plan_status import PlannedJob, PlanState
from hostcc.cli import plan_summary

pytestmark = pytest.mark.unit

STATE: dict[str, Any] = {
    "follows": "abc" * 8,
    "reason": None,
    "held": "abc" * 8,
    "active": "abc" * 8,
    "agreed": True,
    "alone": False,
    "missing": [],
    "number": 3,
    "age_s": 0.1,
    "in_force_s": 12.0,
}
JOB: dict[str, Any] = {
    "name": "a", "rank": 1, "level": 3, "dscp": 32, "weight": 1.5, "factor": 0.5,
}  # fmt: skip


def heading(state: dict[str, Any]) -> list[str]:
    return plan_summary.heading(convert(state, PlanState))


def here(jobs: list[dict[str, Any]]) -> list[str]:
    return plan_summary.here(convert(jobs, list[PlannedJob]))


def test_agreed() -> None:
    assert heading(STATE) == ["plan of view abcabcabcabc, agreed, in force for 12.0 s"]
    assert heading(STATE | {"in_force_s": 6.1e5})[0].endswith("in force for 7 d 1 h")


def test_agreed_with_nobody() -> None:
    assert "agreed with nobody, in force" in heading(STATE | {"alone": True})[0]


def test_after_waiting() -> None:
    names = [f"m{number}" for number in range(9)]
    (line,) = heading(STATE | {"agreed": False, "missing": names})
    assert "after waiting for m0, m1, m2, m3, m4, m5, m6, m7, ..., in force" in line


@pytest.mark.parametrize("follows", ["abc" * 8, None])
def test_hosts_of_a_job_with_another_plan_are_named(follows: str | None) -> None:
    found = {"name": "j", "members": ["x", "y"], "hosts": 2, "since_s": 12.0, "total_s": 20.0}
    line = heading(STATE | {"follows": follows, "differing": [found]})[-1]
    assert line == "plan differs from 2 hosts of job j since 12.0 s, 20.0 s of late: x, y"
    line = heading(STATE | {"follows": follows, "differing": [found | {"defaults": True}]})[-1]
    assert line.endswith("x, y; it is back to the defaults here")


def test_acts_that_wait_for_agreement_are_named() -> None:
    follows = STATE["follows"]
    assert len(heading(STATE | {"acts": {"weights": follows, "paths": follows}})) == 1
    acts = {"weights": follows, "marks": None, "paths": "def" * 8}
    waits = "wait until the neighbours have this plan, too"
    assert heading(STATE | {"acts": acts})[1:] == [
        f"marks {waits}",
        f"paths {waits}: until then by the plan of view defdefdefdef",
    ]


def test_another_view_is_on_its_way() -> None:
    lines = heading(STATE | {"held": "new", "active": "next", "missing": ["b"], "age_s": 4.0})
    assert lines[1:] == [
        "the plan of view next is being made",
        "view new is held and waits for b",
        "it was the one to follow 4.00 s ago",
    ]


def test_none() -> None:
    lines = heading(STATE | {"follows": None, "reason": "no view is active yet"})
    assert lines == ["no plan, defaults are in force: no view is active yet"]


def test_jobs() -> None:
    other = JOB | {"name": "b", "rank": 0, "dscp": None}
    first, second = here([JOB, other])
    assert first == "plan: job b: rank 0, level 3, weight 1.5 (0.5 times its owner's)"
    assert second.startswith("plan: job a: rank 1, level 3, DSCP 32, weight 1.5 (0.5 times")
    assert second.endswith("times its owner's)")


def test_nobody_is_told_to_start_later() -> None:
    """Also of an older agent's answer: the view carries no phase, so it was never known to help."""
    (line,) = here([JOB | {"start_later_s": 0.411}])
    assert "later" not in line


def test_assumed_work_is_told() -> None:
    (line,) = here([JOB | {"work": 2e14, "work_assumed": "equal for each host"}])
    assert line.endswith(", work assumed: equal for each host")
    assert "assumed" not in here([JOB])[0]
