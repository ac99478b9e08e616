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
    """Job -> DSCP, of the jobs of the plan; none without one.

    Jobs of which the plan knows no path have the lowest of the marks that others have: without
    any they would wait behind all of those.
    """
    if made is None:
        return {}
    levels = {one.job: one.level for one in made.plan.jobs if one.level in dscp}
    seen = [level for job, level in levels.items() if job not in made.blind]
    if not seen:
        return {}
    lowest = max(seen)
    return {job: dscp[lowest if job in made.blind else level] for job, level in levels.items()}
