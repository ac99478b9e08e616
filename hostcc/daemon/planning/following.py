"""Decides which plan is in force on this host.  Pure."""

from __future__ import annotations

from dataclasses import dataclass

from hostcc.daemon.planning.agreement_status import AgreementStatus, PlanResult

GOSSIP_STALLED_S = 5.0
"""An agreement is out of date when the gossip had no round for so long."""


@dataclass(frozen=True)
class FollowedPlan:
    """The latest plan, and whether it is in force."""

    made: PlanResult | None = None
    """The plan in force; None: defaults apply."""
    digest: str = ""
    """Of the view of the latest plan, in force or not."""
    since: float = 0.0
    """When that plan came, seconds."""
    current: float = 0.0
    """When its view was held and active for the last time, seconds."""
    why: str = "not started yet"
    """Why no plan is in force."""


def step(
    before: FollowedPlan, now: float, agreement: AgreementStatus | None, max_age_s: float
) -> FollowedPlan:
    """Return what to follow at `now`, seconds; `agreement`: None while there is no gossip."""
    if agreement is None:
        return FollowedPlan(why="this host does not gossip at the moment")
    made = agreement.made
    if made is None:
        return FollowedPlan(why=agreement.trouble or _waiting(agreement))
    digest = made.plan.digest
    same = digest == before.digest
    since, current = (before.since, before.current) if same else (now, now)
    # A plan whose successor waits for processor time is as good as there can be one.
    valid = agreement.waits or digest == agreement.active == agreement.held
    if valid and now - agreement.at < GOSSIP_STALLED_S:
        current = now
    if now - current > max_age_s:
        why = f"the last plan is older than plan.max_age_s, {max_age_s:g} s"
        return FollowedPlan(None, digest, since, current, why)
    return FollowedPlan(made, digest, since, current, "")


def _waiting(agreement: AgreementStatus) -> str:
    return "the plan is being made" if agreement.active else "no view is active yet"
