"""Translates the levels of a plan to DSCP marks.  Pure."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from hostcc.config.sections.marking import MarkingConfig
from hostcc.config.sections.plan import PlanConfig
from hostcc.daemon.planning.agreement_status import PlanResult


def table(plan: PlanConfig, marking: MarkingConfig) -> dict[int, int]:
    """Return level -> DSCP, of the levels that jobs may have, highest first."""
    pairs = enumerate(marking.dscp[: plan.levels])
    return {level: dscp for level, dscp in pairs if level not in plan.reserved}


def marks(made: PlanResult | None, dscp: Mapping[int, int]) -> dict[str, int]:
    """Return job -> DSCP, of the jobs of the plan; none without one.

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


def with_turn(told: Mapping[str, int], first: str, dscp: Mapping[int, int]) -> dict[str, int]:
    """Return job -> DSCP where job `first` is profiled: it has the highest mark (Crux, section 5),
    with a plan and without one.  Empty: nobody is."""
    return {**told, first: dscp[min(dscp)]} if first and dscp else dict(told)


def unrivalled(made: PlanResult, dscp: Mapping[int, int]) -> frozenset[str]:
    """Return jobs that share no queue with another job, where switches tell marks apart.

    A job of which the plan knows no path may be anywhere: whoever has its mark may meet it.
    """
    told = marks(made, dscp)
    ids, met = made.solution.problem.job_ids, made.solution.met
    mark = np.array([told.get(job, -1) for job in ids], np.int64)
    same = mark[met.one] == mark[met.other]
    rivals = np.isin(mark, [-1, *(told.get(job, -1) for job in made.blind)])
    rivals[met.one[same]] = rivals[met.other[same]] = True
    return frozenset(job for job, its in zip(ids, rivals.tolist(), strict=True) if not its)
