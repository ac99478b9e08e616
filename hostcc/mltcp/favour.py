"""What is found out about jobs, and tells the kernel more than their owners wish."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from hostcc.limits import WEIGHT_MAX, WEIGHT_MIN
from hostcc.mltcp.params import JobParams, Mode, Shape, Variant

PREFERENCE = 16.0
"""Weight, over its own, of the job that goes first: as if a 16th of its work were left."""
MOST_BY_LOSS = 2.0
"""The same, and all factors together, where F scales how fast a window grows and not urgency:
a job that grows 16 times as fast overflows queues even where it meets nobody."""
EVEN = Shape(slope=0.0, intercept=1.0)
"""F of a job that grows as the plain algorithm does."""


@dataclass(frozen=True)
class JobPreference:
    """Counts in mode mltcp only: a static weight is what somebody asked for."""

    first: str = ""
    """The job that goes first; empty: nobody."""
    planned: Mapping[str, float] = field(default_factory=dict)
    """Job -> what a plan multiplies its weight by."""
    alone: frozenset[str] = frozenset()
    """Jobs that share no link that they could fill, by the plan: nobody has to yield."""

    def factor(self, job: str) -> float:
        """Of one job's weight."""
        return self.planned.get(job, 1.0) * (PREFERENCE if job == self.first else 1.0)

    def applied(self, params: JobParams) -> JobParams:
        """What the kernel is told: the weight stays within its bounds."""
        if params.mode is not Mode.MLTCP:
            return params
        alone, factor = params.name in self.alone, self.factor(params.name)
        if params.variant is Variant.HOSTCC:
            # Profiling's preference is no wish: a two-way job is not measured better by it.
            wish = min(MOST_BY_LOSS, self.planned.get(params.name, 1.0))
            plain = 1.0 if alone else _bounded(params.weight * wish)
            weight = _bounded(params.weight * factor)
            return replace(params, weight=weight, plain_weight=plain)
        if alone:  # all that F could do is lose
            return replace(params, shape=EVEN, weight=1.0)
        return replace(params, weight=_bounded(params.weight * min(MOST_BY_LOSS, factor)))

    def same(self, other: JobPreference, job: str) -> bool:
        """Whether both say the same of one job."""
        mine, theirs = job in self.alone, job in other.alone
        planned = self.planned.get(job, 1.0) == other.planned.get(job, 1.0)
        return mine == theirs and planned and self.factor(job) == other.factor(job)


def _bounded(weight: float) -> float:
    return min(WEIGHT_MAX, max(WEIGHT_MIN, weight))
