"""Adjusts what jobs' owners asked for by what the agent knows: a preferred job, and the plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from hostcc.limits import WEIGHT_MAX, WEIGHT_MIN
from hostcc.mltcp.params import JobParams, Mode, Shape, Variant

FIRST_JOB_FACTOR = 16.0
"""Factor on the weight of the preferred job: as if a sixteenth of its work were left."""
MAX_FACTOR_BY_LOSS = 2.0
"""Largest factor, alone or combined, for variants where F scales the growth of the window instead
of urgency. With a growth of 16 times, a job overflows queues even where it meets nobody."""
PLAIN_SHAPE = Shape(slope=0.0, intercept=1.0)
"""F of a job that grows as the plain algorithm does."""


@dataclass(frozen=True)
class JobPreference:
    """Adjustments that apply in mode mltcp only: a static weight is an explicit request."""

    first: str = ""
    """The preferred job; empty: none."""
    planned: Mapping[str, float] = field(default_factory=dict)
    """Job -> factor that the plan gives its weight."""
    alone: frozenset[str] = frozenset()
    """Jobs that share no fillable link, by the plan: nobody has to yield."""

    def factor(self, job: str) -> float:
        """Return the factor for a job's weight."""
        return self.planned.get(job, 1.0) * (FIRST_JOB_FACTOR if job == self.first else 1.0)

    def applied_to(self, params: JobParams) -> JobParams:
        """Return the adjusted parameters; weights stay within their bounds."""
        if params.mode is not Mode.MLTCP:
            return params
        alone, factor = params.name in self.alone, self.factor(params.name)
        if params.variant is Variant.HOSTCC:
            # Not the preference for profiling: it does not make a two-way job easier to measure.
            # Nobody grows faster than its owner asks, which would only cost losses; the square
            # keeps the ratio between the highest level and the lowest.
            wish = min(1.0, self.planned.get(params.name, 1.0) ** 2)
            plain = 1.0 if alone else _bounded(params.weight * wish)
            weight = _bounded(params.weight * factor)
            return replace(params, weight=weight, plain_weight=plain)
        if alone:  # F could only slow it down
            return replace(params, shape=PLAIN_SHAPE, weight=1.0)
        return replace(params, weight=_bounded(params.weight * min(MAX_FACTOR_BY_LOSS, factor)))

    def same_for(self, other: JobPreference, job: str) -> bool:
        """Return whether both have the same effect on a job."""
        mine, theirs = job in self.alone, job in other.alone
        planned = self.planned.get(job, 1.0) == other.planned.get(job, 1.0)
        return mine == theirs and planned and self.factor(job) == other.factor(job)


def _bounded(weight: float) -> float:
    return min(WEIGHT_MAX, max(WEIGHT_MIN, weight))
