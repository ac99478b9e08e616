"""Which plan holds: as long as its view is the one to follow, and for a while after."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostcc.daemon.planning.following import (
    GOSSIP_STALLED_S,
    WINDOW_AGES,
    FollowedPlan,
    step,
)
from tests.daemon.planning.made import made, standing

pytestmark = pytest.mark.unit

AGE_S = 10.0
PLAN = made("one")


def follow(*seen: tuple[float, object]) -> FollowedPlan:
    """What is followed after looking at these, each at its time."""
    at = FollowedPlan()
    for now, what in seen:
        at = step(at, now, what, AGE_S)  # type: ignore[arg-type]
    return at


def test_a_plan_is_followed_from_when_it_is_there() -> None:
    at = follow((1.0, standing(PLAN, 1.0)), (5.0, standing(PLAN, 5.0)))
    assert (at.made, at.since, at.current, at.why) == (PLAN, 1.0, 5.0, "")


def test_another_plan_takes_its_place_at_once() -> None:
    other = made("two")
    at = follow((1.0, standing(PLAN, 1.0)), (2.0, standing(other, 2.0)))
    assert (at.made, at.since) == (other, 2.0)


@pytest.mark.parametrize(
    "stale", [{"held": "new"}, {"active": "new", "held": "new"}, {"at": -GOSSIP_STALLED_S}]
)
def test_a_plan_that_is_not_renewed_grows_old(stale: dict[str, Any]) -> None:
    late: dict[str, Any] = {"at": 9.0, **stale}
    seen = [(0.0, standing(PLAN)), (9.0, standing(PLAN, **late))]
    assert follow(*seen).made is PLAN
    seen.append((10.5, standing(PLAN, **{**late, "at": late["at"] if "at" in stale else 10.5})))
    at = follow(*seen)
    assert at.made is None
    assert "older than plan.max_age_s, 10 s" in at.why
    seen.append((11.0, standing(PLAN, 11.0)))
    assert follow(*seen).made is PLAN


def test_a_plan_stays_while_its_successor_waits_for_processor_time() -> None:
    late: dict[str, Any] = {"active": "new", "held": "newer", "waits": True}
    seen = [(0.0, standing(PLAN)), (5 * AGE_S, standing(PLAN, 5 * AGE_S, **late))]
    assert follow(*seen).made is PLAN
    # Not without the gossip, which may have lost everybody.
    seen.append((7 * AGE_S, standing(PLAN, 5 * AGE_S, **late)))
    assert follow(*seen).made is None


@pytest.mark.parametrize(
    ("what", "why"),
    [
        (None, "does not gossip"),
        (standing(None), "no view is active yet"),
        (standing(None, active="new"), "the plan is being made"),
        (standing(None, active="new", trouble="links: expected"), "links: expected"),
    ],
)
def test_without_a_plan_defaults_are_back_at_once(what: object, why: str) -> None:
    at = follow((0.0, standing(PLAN)), (0.1, what))
    assert at.made is None
    assert why in at.why


def test_a_job_that_other_hosts_plan_otherwise_is_left_and_the_others_are_not() -> None:
    brief, long = {"b": {"x": AGE_S - 0.5}}, {"b": {"x": 1.0, "y": AGE_S}}
    first = (0.0, standing(PLAN))
    assert follow(first, (10.0, standing(PLAN, 10.0, differing=brief))).made is PLAN
    at = follow(first, (10.5, standing(PLAN, 10.5, differing=long)))
    assert at.made is not None
    assert [one.job for one in at.made.plan.jobs] == ["a", "c"]
    assert [one.flow for one in PLAN.plan.flows] == ["f-a", "f-b"]
    assert [one.flow for one in at.made.plan.flows] == ["f-a"]
    assert "b" in PLAN.factors
    assert (set(at.made.factors), at.made.alone) == (set(PLAN.factors) - {"b"}, frozenset())
    assert step(at, 10.6, standing(PLAN, 10.6, differing=long), AGE_S).made is at.made
    back = step(at, 11.0, standing(PLAN, 11.0), AGE_S)
    assert back.made is PLAN


def test_what_waits_for_agreement_keeps_the_last_plan_that_was_agreed_on() -> None:
    new = made("two", first="b")
    differs = {"b": {"x": 1.0}}
    agreed = (0.0, standing(PLAN, plans_agree=True))
    at = follow(agreed, (1.0, standing(new, 1.0, differing=differs)))
    assert (at.made, at.agreed.result) == (new, PLAN)
    at = step(at, 2.0, standing(new, 2.0, plans_agree=True), AGE_S)
    assert at.agreed.result is new


def test_what_waits_for_agreement_does_not_wait_for_ever() -> None:
    differs = {"b": {"x": 1.0}}
    at = follow((0.0, standing(PLAN, differing=differs)))
    assert (at.made, at.agreed.result) == (PLAN, None)
    at = step(at, 0.5, standing(PLAN, 0.5), AGE_S)
    assert at.agreed.result is None
    at = step(at, AGE_S, standing(PLAN, AGE_S, differing={"b": {"x": 0.0}}), AGE_S)
    assert at.made is PLAN  # b has not differed for so long
    assert at.agreed.result is not None
    assert [one.job for one in at.agreed.result.plan.jobs] == ["a", "c"]


def test_a_job_whose_plans_differ_is_left_in_the_plan_that_was_agreed_on_too() -> None:
    agreed = (0.0, standing(PLAN, plans_agree=True))
    late = standing(PLAN, 9.0, differing={"b": {"x": AGE_S + 1.0}})
    at = follow(agreed, (9.0, late))
    assert at.agreed.result is not None
    assert [one.job for one in at.agreed.result.plan.jobs] == ["a", "c"]


def test_a_moment_of_agreement_does_not_begin_the_time_anew() -> None:
    differs = {"b": {"x": 0.0}}
    at = follow((0.0, standing(PLAN, differing=differs)))
    at = step(at, 6.0, standing(PLAN, 6.0), AGE_S)
    at = step(at, 6.5, standing(PLAN, 6.5, differing={"b": {"y": 0.0}}), AGE_S)
    at = step(at, 10.0, standing(PLAN, 10.0, differing=differs), AGE_S)
    assert at.made is PLAN
    at = step(at, 10.5, standing(PLAN, 10.5, differing=differs), AGE_S)
    assert at.newest.left_out == {"b"}
    assert at.differed_s("b", 10.5, AGE_S) == AGE_S
    at = step(at, 12.0, standing(PLAN, 12.0), AGE_S)
    assert at.made is PLAN
    at = step(at, 12.5, standing(PLAN, 12.5, differing=differs), AGE_S)
    assert at.newest.left_out == {"b"}
    at = step(at, 13.0, None, AGE_S)
    assert at.differed_s("b", 13.0, AGE_S) == AGE_S + 2.0
    at = step(at, 40.0, standing(PLAN, 40.0, differing=differs), AGE_S)
    assert at.made is PLAN


def test_a_moment_of_agreement_does_not_begin_the_wait_anew() -> None:
    new = made("two")
    at = follow((0.0, standing(PLAN, plans_agree=True)), (1.0, standing(new, 1.0)))
    at = step(at, 8.0, standing(PLAN, 8.0, plans_agree=True), AGE_S)
    at = step(at, 9.0, standing(new, 9.0), AGE_S)
    assert at.agreed.result is PLAN
    assert step(at, 12.0, standing(new, 12.0), AGE_S).agreed.result is new


@given(st.lists(st.sampled_from(["same", "x", "y", "away"]), max_size=120))
def test_two_plans_are_in_force_for_the_bound_in_any_window(seen: list[str]) -> None:
    at, both = FollowedPlan(), list[bool]()
    for now, what in enumerate(seen):
        differing = {"b": {what: 0.0}} if what in "xy" else {}
        known = standing(PLAN, now, differing=differing) if what != "away" else None
        at = step(at, now, known, AGE_S)
        both.append(bool(differing) and at.made is PLAN)
    width = round(WINDOW_AGES * AGE_S)
    assert all(sum(both[start : start + width]) <= AGE_S for start in range(len(both)))
