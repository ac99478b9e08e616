"""Which mark a plan's levels come to: pure."""

from __future__ import annotations

from collections.abc import Mapping

from hostcc.planning.standing import Made
from hostcc.sections.marking import MarkingConfig
from hostcc.sections.plan import PlanConfig


def table(plan: PlanConfig, marking: MarkingConfig) -> dict[int, int]:
    """Level -> DSCP, of the levels that jobs may have, highest first."""
    pairs = enumerate(marking.dscp[: plan.levels])
    return {level: dscp for level, dscp in pairs if level not in plan.reserved}


def marks(made: Made | None, dscp: Mapping[int, int]) -> dict[str, int]:
    """Job -> DSCP; none for jobs of which the plan knows no path, and none without a plan."""
    if made is None:
        return {}
    return {
        one.job: dscp[one.level]
        for one in made.plan.jobs
        if one.level in dscp and one.job not in made.blind
    }
