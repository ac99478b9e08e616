"""Decides which plan is in force on this host, and for which acts and jobs.  Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from hostcc.daemon.planning import recent_time
from hostcc.daemon.planning.agreement_status import AgreementStatus, PlanResult
from hostcc.daemon.planning.recent_time import Spans

GOSSIP_STALLED_S = 5.0
"""An agreement is out of date when the gossip had no round for so long."""
WINDOW_AGES = 2
"""Hosts of a job may have different plans for `max_age_s` in all within so many times that."""


@dataclass(frozen=True)
class PartialPlan:
    """A plan without some of its jobs, for which the defaults apply; the same object as long as
    both are the same."""

    whole: PlanResult | None = None
    left_out: frozenset[str] = frozenset()
    result: PlanResult | None = None
    """What is left of it; None: there is no plan."""


@dataclass(frozen=True)
class FollowedPlan:
    """The latest plan, and whether it is in force."""

    newest: PartialPlan = PartialPlan()
    """The latest plan, for acts on "timeout"."""
    digest: str = ""
    """Of the view of the latest plan, in force or not."""
    since: float = 0.0
    """When that plan came, seconds."""
    current: float = 0.0
    """When its view was held and active for the last time, seconds."""
    why: str = "not started yet"
    """Why no plan is in force."""
    agreed: PartialPlan = PartialPlan()
    """The latest plan that the neighbours had, too, for acts on "agreed"."""
    waited: Spans = ()
    """When acts on "agreed" were not to be by the latest plan, of late."""
    differed: Mapping[str, Spans] = field(default_factory=dict)
    """Job of this host -> when another host of it was to follow another plan, of late."""

    def differed_s(self, job: str, now: float, max_age_s: float) -> float:
        """Return for how many of the last seconds hosts of a job were to follow different plans."""
        return recent_time.total(self.differed.get(job, ()), now, WINDOW_AGES * max_age_s)

    @property
    def made(self) -> PlanResult | None:
        """The plan in force; None: defaults apply."""
        return self.newest.result


def step(
    before: FollowedPlan, now: float, agreement: AgreementStatus | None, max_age_s: float
) -> FollowedPlan:
    """Return what to follow at `now`, seconds; `agreement`: None while there is no gossip.

    While hosts of a job differ, and have for `max_age_s` of late, the defaults apply to it.  Acts
    on "agreed" wait for `max_age_s` of late; then they are by the newest plan, without the jobs
    whose hosts differ.
    """
    differed = _differed(before.differed, now, agreement, max_age_s)
    if agreement is None:
        return FollowedPlan(why="this host does not gossip at the moment", differed=differed)
    made = agreement.made
    if made is None:
        return FollowedPlan(why=agreement.trouble or _waiting(agreement), differed=differed)
    digest = made.plan.digest
    same = digest == before.digest
    since, current = (before.since, before.current) if same else (now, now)
    # A plan whose successor waits for processor time is as good as there can be one.
    valid = agreement.waits or digest == agreement.active == agreement.held
    if valid and now - agreement.at < GOSSIP_STALLED_S:
        current = now
    if now - current > max_age_s:
        why = f"the last plan is older than plan.max_age_s, {max_age_s:g} s"
        return FollowedPlan(PartialPlan(), digest, since, current, why, differed=differed)
    window_s = WINDOW_AGES * max_age_s
    late = frozenset(
        job
        for job in agreement.differing
        if recent_time.total(differed[job], now, window_s) >= max_age_s
    )
    newest = _part(before.newest, made, late)
    waits = None if agreement.plans_agree else now
    waited = recent_time.step(before.waited, now, waits, window_s)
    if agreement.plans_agree:
        agreed = newest
    elif recent_time.total(waited, now, window_s) < max_age_s:
        agreed = _part(before.agreed, before.agreed.whole, late)
    else:
        agreed = _part(before.agreed, made, frozenset(agreement.differing))
    return FollowedPlan(newest, digest, since, current, "", agreed, waited, differed)


def _differed(
    before: Mapping[str, Spans], now: float, agreement: AgreementStatus | None, max_age_s: float
) -> dict[str, Spans]:
    differing = agreement.differing if agreement is not None else {}
    found = {}
    for job in before.keys() | differing.keys():
        since = now - max(differing[job].values()) if job in differing else None
        found[job] = recent_time.step(before.get(job, ()), now, since, WINDOW_AGES * max_age_s)
    return {job: spans for job, spans in found.items() if spans}


def without(made: PlanResult, jobs: frozenset[str]) -> PlanResult:
    """Return a plan for which the defaults apply to some jobs.

    They may be on any path, so nobody is known to be alone.
    """
    plan, owner = made.plan, dict[str, str]()
    if plan.flows:
        problem = made.solution.problem
        ids = map(problem.job_ids.__getitem__, problem.flow_job.tolist())
        owner = dict(zip(problem.flow_ids, ids, strict=True))
    left = replace(
        plan,
        jobs=tuple(one for one in plan.jobs if one.job not in jobs),
        flows=tuple(one for one in plan.flows if owner.get(one.flow) not in jobs),
    )
    factors = {job: factor for job, factor in made.factors.items() if job not in jobs}
    return replace(made, plan=left, factors=factors, alone=frozenset())


def _part(before: PartialPlan, whole: PlanResult | None, left_out: frozenset[str]) -> PartialPlan:
    if whole is before.whole and left_out == before.left_out:
        return before
    if whole is None or not left_out:
        return PartialPlan(whole, left_out, whole)
    return PartialPlan(whole, left_out, without(whole, left_out))


def _waiting(agreement: AgreementStatus) -> str:
    return "the plan is being made" if agreement.active else "no view is active yet"
