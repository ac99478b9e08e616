"""Options of plans, and how long a plan stays in force."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from msgspec import Meta, Struct

Level = Annotated[int, Meta(ge=0, le=15)]
ActOn = Literal["agreed", "timeout"]


class PlanConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[plan]`: options of the plans that hosts make of what they gossip.

    Hosts agree where their plans are the same.  They are if all keys are but `enabled`,
    `max_age_s` and `act_on_*`, and may be otherwise.
    """

    enabled: bool = True
    """Whether this host follows plans while it gossips."""
    levels: Annotated[int, Meta(ge=1, le=16)] = 8
    """Priority levels of the network, 0 the highest."""
    reserved: Annotated[tuple[Level, ...], Meta(max_length=15)] = (0, 1, 7)
    """Levels that jobs do not get: for the network's own traffic, and for traffic of no job."""
    paths: Literal["hostcc", "crux", "taccl", "maxmin", "balance", "annealing", "ecmp", "stay"] = (
        "hostcc"
    )
    """How paths are chosen."""
    order: Literal["hostcc", "crux", "intensity", "sincronia", "varys", "hash"] = "hostcc"
    """How jobs are ordered."""
    compression: Literal["exact", "algorithm1", "balanced", "sincronia"] = "exact"
    """How the order is fitted to the levels."""
    fairness: Annotated[float, Meta(ge=0, le=10)] = 0.0
    """Exponent of the recent slow-down in a job's worth; 0: throughput alone counts."""
    most_loss: Annotated[float, Meta(ge=0.0, le=1.0)] = 1.0
    """Predicted fraction of its speed that no job may lose; 1: no bound."""
    max_age_s: Annotated[float, Meta(ge=1, le=86400)] = 30.0
    """Seconds for which a plan is followed after the last agreement on it.  A job has two plans in
    force on its live hosts for at most as long, in all, in any twice that time."""
    act_on_weights: ActOn = "timeout"
    """Whether weights wait until the neighbours have the same plan, or only for the view. They do
    not wait: a weight that only one host has already costs less than one that comes later."""
    act_on_marks: ActOn = "timeout"
    """The same for DSCP marks. They do not wait: a job without its mark is behind all others."""
    act_on_paths: ActOn = "agreed"
    """The same for paths. They wait, because flows of two plans meet on links on which each of the
    plans alone keeps them apart."""

    @property
    def loss_bound(self) -> float:
        """`most_loss` as schedule.plan.Options has it: inf means no bound."""
        return math.inf if self.most_loss == 1.0 else self.most_loss
