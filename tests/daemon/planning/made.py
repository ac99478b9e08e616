"""Plans and where members stand, made by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hostcc.config.sections.plan import PlanConfig
from hostcc.coord.view import Snapshot
from hostcc.daemon.planning.agreement_status import AgreementStatus, PlanResult
from hostcc.daemon.planning.plan_store import Act, PlanStore
from hostcc.daemon.planning.planner import Planner
from hostcc.model import ClusterView, JobProfile
from tests.schedule.views import job, one_link


def contended(digest: str = "d", first: str = "a") -> ClusterView:
    """Two jobs, a and b, that share a link; `first` is the more urgent.  Job c has no path."""
    profiles = [job(name, work=4.0 if name == first else 1.0) for name in ("a", "b")]
    view = one_link(profiles, [2.0, 2.0])
    return replace(view, jobs=(*view.jobs, job("c", bytes_to=(("b", 1.0),))), digest=digest)  # type: ignore[arg-type]


def made(digest: str = "d", first: str = "a") -> PlanResult:
    """The plan of such a view."""
    planner = Planner(PlanConfig())
    found = planner.made(planner(contended(digest, first)))
    assert found is not None
    return found


class HeldSnapshot(Snapshot):
    """The snapshot of a view that is there already."""

    def __init__(self, held: ClusterView) -> None:
        self.held, self.digest = held, held.digest

    @property
    def view(self) -> ClusterView:
        return self.held

    def job(self, name: str) -> JobProfile | None:
        return next((one for one in self.held.jobs if one.job == name), None)


def standing(plan: PlanResult | None, now: float = 0.0, **more: Any) -> AgreementStatus:
    """A member that follows `plan` and holds a contended view of the same digest."""
    digest = plan.plan.digest if plan is not None else ""
    held = HeldSnapshot(contended(digest)) if plan is not None else None
    at = AgreementStatus(digest, digest, True, (), 1, plan, at=now, snapshot=held)
    return replace(at, **more)


class ToyPlans(PlanStore):
    """A plan that is in force as long as the test says."""

    def __init__(self, result: PlanResult | None = None, member: str = "") -> None:
        self.result, self.name = result, member

    @property
    def member(self) -> str:
        return self.name

    def current(self, act: Act | None = None) -> PlanResult | None:
        return self.result
