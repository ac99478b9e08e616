"""What an agent's status says of plans: which one holds, and what jobs of this host are given."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from hostcc.answers.fields import JOB_LABEL, Counter, Flop, Gauge, Label, Seconds
from hostcc.answers.gossip import Disagreement
from hostcc.answers.links import Utilisation


class PlanDifference(Struct, frozen=True, kw_only=True):
    """A job of this host whose other hosts are to follow another plan."""

    name: Annotated[str, Label(JOB_LABEL)]
    """Of the job."""
    members: tuple[str, ...]
    """Its hosts with another plan; at most 8 are named."""
    hosts: Annotated[
        int, Gauge("hostcc_plan_differing_hosts", "Hosts of the job that have another plan")
    ]
    """How many of its hosts have another plan."""
    since_s: Annotated[
        Seconds, Gauge("hostcc_plan_differing_seconds", "Since a host of the job has another plan")
    ]
    """For how long the first of them has had another plan."""
    total_s: Annotated[
        Seconds,
        Gauge(
            "hostcc_plan_differing_recent_seconds",
            "For how long hosts of the job had other plans in the last 2 plan.max_age_s",
        ),
    ] = 0.0
    """For how long any of its hosts had another plan, in all, in the last two `max_age_s`."""
    defaults: bool = False
    """Whether the job is back to the defaults on this host because of that."""


class PlanState(Struct, frozen=True, kw_only=True):
    """Which plan holds on this host, and since when."""

    follows: str | None
    """Digest of the view of the plan that holds; None: defaults are in force."""
    reason: str | None
    """Why none holds; None while one does."""
    held: str | None
    """Digest of the view that this host holds; None without gossip."""
    active: str | None
    """Digest of the view whose plan is the one to follow; None without gossip."""
    agreed: bool | None
    """Whether those that matter held the active view, too, or are to follow the same plan; None
    without gossip."""
    alone: bool | None
    """No other member is alive; None without gossip."""
    missing: tuple[str, ...]
    """Members that it waits for, or has stopped waiting for."""
    disagreements: tuple[Disagreement, ...] = ()
    """What plans depend on and is not the same on all members."""
    differing: tuple[PlanDifference, ...] = ()
    """Jobs of this host whose other hosts are to follow another plan."""
    acts: dict[str, str | None] = {}
    """`weights`, `marks`, `paths`: digest of the view of the plan that each is by now; None: by
    none."""
    number: Annotated[int, Counter("hostcc_plan_activations", "Activations of plans by this host")]
    """Activations of plans by this host so far."""
    age_s: Annotated[
        Seconds | None,
        Gauge("hostcc_plan_age_seconds", "Since the plan was the one to follow"),
    ]
    """Since the plan was the one to follow; None without one."""
    in_force_s: Seconds | None
    """Since the plan came into force; None without one."""


class PlannedJob(Struct, frozen=True, kw_only=True):
    """What the plan says of one job of this host."""

    name: Annotated[str, Label(JOB_LABEL)]
    """Of the job."""
    rank: Annotated[int, Gauge("hostcc_job_planned_rank", "Place in the plan's order, 0 the first")]
    """Its place in the plan's order, 0 the first."""
    level: Annotated[int, Gauge("hostcc_job_planned_level", "Priority level, 0 the highest")]
    """Its priority level, 0 the highest."""
    dscp: Annotated[int | None, Gauge("hostcc_job_planned_dscp", "DSCP of its connections")]
    """DSCP of its connections; None: they are not marked."""
    weight: float
    """As the congestion control has it."""
    factor: Annotated[
        float,
        Gauge("hostcc_job_planned_factor", "What the plan multiplies its owner's weight by"),
    ]
    """What the plan multiplies its owner's weight by."""
    work: Flop | None = None
    """W that it is planned with: work of an iteration on all of its hosts."""
    work_assumed: str | None = None
    """How W is assumed; None: all of its hosts measure it, or it was declared."""


class PlanStatus(PlanState, frozen=True, kw_only=True):
    """The block `plan` of the status."""

    jobs: tuple[PlannedJob, ...]
    """The jobs of this host."""
    cluster: Utilisation | None = None
    """How the cluster fares; None without a plan, and in its first seconds."""
