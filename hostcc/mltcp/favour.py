"""What is found out about jobs, and tells the kernel more than their owners wish."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from hostcc.limits import WEIGHT_MAX, WEIGHT_MIN
from hostcc.mltcp.params import JobParams, Mode

PREFERENCE = 16.0
"""Weight, over its own, of the job that goes first: as if a 16th of its work were left."""


@dataclass(frozen=True)
class Favour:
    """Counts in mode mltcp only: a static weight is what somebody asked for."""

    first: str = ""
    """The job that goes first; empty: nobody."""
    planned: Mapping[str, float] = field(default_factory=dict)
    """Job -> what a plan multiplies its weight by."""
    two_way: frozenset[str] = frozenset()
    """Jobs that receive while they send: acknowledgements wait in others' queues, so that delay
    says nothing of the queue that the job fills."""

    def factor(self, job: str) -> float:
        """Of one job's weight."""
        return self.planned.get(job, 1.0) * (PREFERENCE if job == self.first else 1.0)

    def applied(self, params: JobParams) -> JobParams:
        """What the kernel is told: the weight stays within its bounds."""
        if params.mode is not Mode.MLTCP:
            return params
        weight = params.weight * self.factor(params.name)
        return replace(
            params,
            weight=min(WEIGHT_MAX, max(WEIGHT_MIN, weight)),
            by_delay=params.name not in self.two_way,
        )

    def same(self, other: Favour, job: str) -> bool:
        """Whether both say the same of one job."""
        alike = (job in self.two_way) == (job in other.two_way)
        return alike and self.factor(job) == other.factor(job)
