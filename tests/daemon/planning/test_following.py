"""Which plan holds: as long as its view is the one to follow, and for a while after."""

from __future__ import annotations

from typing import Any

import pytest

from hostcc.daemon.planning.following import GOSSIP_STALLED_S, FollowedPlan, step
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
