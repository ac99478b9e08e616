"""Which hosts of a job are to follow another plan, and since when."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hostcc.coord.core.message import MAX_JOB_DIGESTS
from hostcc.coord.plan_difference import (
    FollowedPlan,
    PlanDigests,
    agree,
    differing,
    digests,
    step,
)
from hostcc.model import Flow, FlowPlan, JobPlan, Plan

pytestmark = pytest.mark.unit

FLOWS = (Flow("f", "j", "a", "b", 1.0), Flow("g", "k", "a", "b", 1.0))
PLAN = Plan(
    "view",
    (JobPlan("j", 0, 2, 1.0), JobPlan("k", 1, 3, 1.0)),
    (FlowPlan("f", "p"), FlowPlan("g", "p")),
    "why",
)
OWN = digests(PLAN, FLOWS)


def changed(job: JobPlan) -> Plan:
    return replace(PLAN, jobs=(job, PLAN.jobs[1]))


def follows(plan: Plan, view: str = "v") -> FollowedPlan:
    return FollowedPlan(view, digests(plan, FLOWS))


def test_a_digest_is_of_what_hosts_do() -> None:
    assert digests(replace(PLAN, digest="other", reason=""), FLOWS) == OWN
    assert digests(changed(JobPlan("j", 7, 2, 9.0, reason="other")), FLOWS) == OWN
    assert digests(None, FLOWS) == digests(Plan("view"), FLOWS) == PlanDigests()


@pytest.mark.parametrize(
    "other",
    [
        changed(JobPlan("j", 0, 3, 1.0)),
        changed(JobPlan("j", 0, 2, 1.0, shift_s=0.1)),
        changed(JobPlan("j", 0, 2, 1.0, parameters=(("weight", 2.0),))),
        replace(PLAN, flows=(FlowPlan("f", "q"), FlowPlan("g", "p"))),
        replace(PLAN, jobs=PLAN.jobs[1:], flows=PLAN.flows[1:]),
    ],
)
def test_only_the_job_that_is_planned_otherwise_differs(other: Plan) -> None:
    one, two = follows(PLAN), follows(other, "w")
    for own, theirs in ((one, two), (two, one)):
        assert differing(own, theirs, ("j", "k")) == {"j"}
        assert differing(own, theirs, ("k",)) == frozenset()
        assert not agree(own, theirs, ("j", "k"))


def test_equal_plans_of_different_views_agree() -> None:
    one, two = follows(PLAN), follows(PLAN, "w")
    assert agree(one, two, ("j",))
    assert differing(one, two, ("j", "k")) == frozenset()
    mine = FollowedPlan("w", OWN.of(["k"]))
    assert mine.digests.jobs.keys() == {"k"}
    assert agree(one, mine, ("k",))


def test_a_neighbour_that_shares_no_job_is_asked_about_its_own() -> None:
    other = FollowedPlan("v", digests(changed(JobPlan("j", 0, 5, 1.0)), FLOWS).of(["j"]))
    assert differing(follows(PLAN), other, ()) == frozenset()
    assert not agree(follows(PLAN), other, ())


@pytest.mark.parametrize(
    ("one", "two", "expected"),
    [
        (follows(PLAN), FollowedPlan("v"), False),
        (follows(PLAN), FollowedPlan("w"), True),
        (follows(PLAN), FollowedPlan(), False),
    ],
)
def test_views_count_where_there_is_no_plan(
    one: FollowedPlan, two: FollowedPlan, expected: bool
) -> None:
    found = frozenset({"j"}) if expected else frozenset()
    assert differing(one, two, ("j",)) == differing(two, one, ("j",)) == found
    assert agree(one, two, ("j",)) is (one.active == two.active)


def test_a_report_is_bounded_and_what_it_leaves_out_does_not_differ() -> None:
    names = [f"job{index:03}" for index in range(MAX_JOB_DIGESTS + 1)]
    many = Plan("v", tuple(JobPlan(name, 0, 1, 1.0) for name in names))
    other = Plan("v", tuple(JobPlan(name, 0, 2, 1.0) for name in names))
    told = digests(other, ()).of(names)
    assert len(told.jobs) == MAX_JOB_DIGESTS
    found = differing(FollowedPlan("v", digests(many, ())), FollowedPlan("v", told), names)
    assert found == set(names[:-1])


def test_time_counts_from_the_first_difference() -> None:
    first = step({}, 1.0, {"a": ["j"], "b": []})
    assert first == {("j", "a"): 1.0}
    assert step(first, 5.0, {"a": ["j", "k"], "b": ["j"]}) == {
        ("j", "a"): 1.0,
        ("k", "a"): 5.0,
        ("j", "b"): 5.0,
    }
    assert step(first, 5.0, {"a": []}) == {}
