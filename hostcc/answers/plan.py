"""What an agent answers to `hostcc plan`: a plan, and why it treats a job as it does."""

from __future__ import annotations

from msgspec import Struct

from hostcc.answers.plan_status import PlanState
from hostcc.model import FlowPlan, JobPlan

PLAN, EXPLANATION = "hostcc.plan/1", "hostcc.explanation/1"


class Contender(Struct, frozen=True):
    """A job that shares a link with the one explained."""

    job: str
    """Its name."""
    rank: int
    """Its place in the plan's order, 0 the first."""
    level: int
    """Its priority level, 0 the highest."""
    before: bool
    """Whether it goes first."""
    loses: float
    """What whichever goes second is predicted to lose to the other: iteration time over the
    one alone, less 1."""


class FlowReason(Struct, frozen=True):
    """Where one flow goes."""

    flow: str
    """Id of the flow, the same on every host."""
    path: str
    """Id of the path that it is given."""
    before: str
    """The path that it was on; empty: unknown, or gone."""
    busiest: str
    """The link of its path that is offered most."""
    load: float
    """Of that link: seconds of traffic per second, as if nobody waited."""
    reason: str
    """Why it goes there."""


class Explanation(Struct, frozen=True):
    """Why a plan treats one job as it does."""

    job: str
    """Its name."""
    rank: int
    """Its place in the plan's order, 0 the first."""
    level: int
    """Its priority level, 0 the highest."""
    speed: float
    """Predicted iterations per second over those alone."""
    order: str
    """Why it has its rank."""
    levels: str
    """Why it has its level."""
    parameters: str
    """What it is given, and why."""
    shift: str
    """Why it starts later, or not."""
    contenders: tuple[Contender, ...]
    """The jobs that share links with it, at most a hundred, the most important first."""
    flows: tuple[FlowReason, ...]
    """Its flows."""


class PlanAnswer(Struct, frozen=True, kw_only=True):
    """The plan that holds, empty without one."""

    schema: str = PLAN
    """Names this form."""
    digest: str
    """Of the view that it came from."""
    jobs: tuple[JobPlan, ...] = ()
    """By name."""
    flows: tuple[FlowPlan, ...] = ()
    """Large flows with known paths, by id."""
    reason: str = ""
    """What was done and why."""
    state: PlanState
    """Which plan holds, and since when."""
    explanation: Explanation | None = None
    """Only if the request names a job; `hostcc plan --explain --json` prints it alone, with
    `schema` `hostcc.explanation/1`."""
