"""Which plan holds on this host: pure."""

from __future__ import annotations

from dataclasses import dataclass

from hostcc.daemon.planning.agreement_status import AgreementStatus, PlanResult

STALLED_S = 5.0
"""Without a round of the gossip for so long, what it says is not news."""


@dataclass(frozen=True)
class FollowedPlan:
    """What a host follows."""

    made: PlanResult | None = None
    """The plan that holds; None: defaults."""
    digest: str = ""
    """Of the latest plan, whether it holds or not."""
    since: float = 0.0
    """From when that plan has been there, seconds."""
    current: float = 0.0
    """When its view was the one held and active for the last time, seconds."""
    why: str = "not started yet"
    """Why no plan holds."""


def step(
    before: FollowedPlan, now: float, standing: AgreementStatus | None, max_age_s: float
) -> FollowedPlan:
    """What to follow at `now`, seconds; `standing`: None while this host does not gossip."""
    if standing is None:
        return FollowedPlan(why="this host does not gossip at the moment")
    made = standing.made
    if made is None:
        return FollowedPlan(why=standing.trouble or _waiting(standing))
    digest = made.plan.digest
    same = digest == before.digest
    since, current = (before.since, before.current) if same else (now, now)
    if digest == standing.active == standing.held and now - standing.at < STALLED_S:
        current = now
    if now - current > max_age_s:
        why = f"the last plan is older than plan.max_age_s, {max_age_s:g} s"
        return FollowedPlan(None, digest, since, current, why)
    return FollowedPlan(made, digest, since, current, "")


def _waiting(standing: AgreementStatus) -> str:
    return "the plan is being made" if standing.active else "no view is active yet"
