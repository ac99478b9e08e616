"""What plans are made by, and how long they hold."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from msgspec import Meta, Struct

Level = Annotated[int, Meta(ge=0, le=15)]


class PlanConfig(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[plan]`: what is decided for jobs, from what the hosts tell each other.

    Hosts agree only where everything but `enabled` and `max_age_s` is the same.
    """

    enabled: bool = True
    """Whether this host follows plans, while it gossips."""
    levels: Annotated[int, Meta(ge=1, le=16)] = 8
    """Priority levels of the network, 0 the highest."""
    reserved: Annotated[tuple[Level, ...], Meta(max_length=15)] = (0, 1, 7)
    """Levels that jobs do not get: the network's own traffic, and whatever is no job's."""
    paths: Literal["hostcc", "crux", "taccl", "annealing", "ecmp", "stay"] = "hostcc"
    """How paths are chosen."""
    order: Literal["hostcc", "crux", "intensity", "sincronia", "varys", "hash"] = "hostcc"
    """How jobs are ordered."""
    compression: Literal["exact", "algorithm1", "balanced", "sincronia"] = "exact"
    """How the order is fitted to the levels."""
    fairness: Annotated[float, Meta(ge=0, le=10)] = 0.0
    """Power of recent slow-downs in what a job counts; 0: throughput alone."""
    most_loss: Annotated[float, Meta(ge=0.0, le=1.0)] = 1.0
    """No job shall lose more of its speed than this part of it, as predicted; 1: no bound."""
    max_age_s: Annotated[float, Meta(ge=1, le=86400)] = 30.0
    """How long a plan holds after the last moment at which it was the one to follow."""

    @property
    def loss_bound(self) -> float:
        """`most_loss` as the scheduler has it."""
        return math.inf if self.most_loss == 1.0 else self.most_loss
