"""Jobs of this host whose hosts are to follow different plans, as the status shows them."""

from __future__ import annotations

from hostcc.answers.plan_status import PlanDifference
from hostcc.daemon.planning.agreement_status import AgreementStatus
from hostcc.daemon.planning.following import FollowedPlan

MAX_MEMBERS_SHOWN = 8


def differences(
    agreement: AgreementStatus | None, followed: FollowedPlan, now: float, max_age_s: float
) -> tuple[PlanDifference, ...]:
    """Return them by name; `followed`: what is in force at `now`, seconds."""
    return tuple(
        PlanDifference(
            name=job,
            members=tuple(hosts)[:MAX_MEMBERS_SHOWN],
            hosts=len(hosts),
            since_s=max(hosts.values()),
            total_s=followed.differed_s(job, now, max_age_s),
            defaults=job in followed.newest.left_out,
        )
        for job, hosts in sorted(agreement.differing.items() if agreement is not None else ())
    )
