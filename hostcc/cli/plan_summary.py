"""The plan that an agent follows, in words."""

from __future__ import annotations

from collections.abc import Sequence

from hostcc.answers.links import ProfilingTurn, Utilisation
from hostcc.answers.plan_status import PlannedJob, PlanState
from hostcc.cli.common import seconds
from hostcc.cli.peers import short

MISSING_SHOWN = 8


def heading(state: PlanState) -> list[str]:
    """Which plan is followed and since when, or why none is."""
    if state.follows is None:
        return [f"no plan, defaults are in force: {state.reason}", *_differing(state)]
    line = f"plan of view {short(state.follows)}, {_how(state)}"
    line += f", in force for {seconds(state.in_force_s)}"
    lines = [line]
    if state.active != state.follows:
        lines.append(f"the plan of view {short(state.active or '')} is being made")
    if state.held != state.active:
        lines.append(f"view {short(state.held or '')} is held and waits for {_names(state)}")
    if state.age_s is not None and state.age_s >= 1:
        lines.append(f"it was the one to follow {seconds(state.age_s)} ago")
    return [*lines, *_acts(state), *_differing(state)]


def _differing(state: PlanState) -> list[str]:
    return [
        f"plan differs from {one.hosts} host{'s' if one.hosts > 1 else ''} of job {one.name} "
        f"since {seconds(one.since_s)}, {seconds(one.total_s)} of late: {', '.join(one.members)}"
        + (", ..." if one.hosts > len(one.members) else "")
        + ("; it is back to the defaults here" if one.defaults else "")
        for one in state.differing
    ]


def _acts(state: PlanState) -> list[str]:
    return [
        f"{act} wait until the neighbours have this plan, too"
        + (f": until then by the plan of view {short(digest)}" if digest else "")
        for act, digest in state.acts.items()
        if digest != state.follows
    ]


def here(jobs: Sequence[PlannedJob]) -> list[str]:
    """Rank, level and weight of this host's jobs, the first first."""
    return [f"plan: job {_job(one)}" for one in sorted(jobs, key=lambda one: one.rank)]


def cluster(of: Utilisation | None) -> list[str]:
    """How the cluster's GPUs are used, and for how many jobs sharing links is a risk."""
    if of is None:
        return []
    planned = _share(of.predicted, of.predicted_jobs, "as planned")
    measured = _share(of.measured, of.measured_jobs, "as measured")
    at_risk = "1 job is" if of.at_risk == 1 else f"{of.at_risk} jobs are"
    line = f"GPU utilisation: {planned}, {measured}; {at_risk} at risk of contention"
    line += f", {of.relieved} of them relieved" if of.at_risk else ""
    return [line, *_turn(of.turn)]


def _turn(of: ProfilingTurn | None) -> list[str]:
    if of is None:
        return []
    cost = "unknown" if of.lost_s is None else seconds(of.lost_s)
    share = (
        "" if of.lost_share is None else f", {of.lost_share:.2%} of the cluster's work meanwhile"
    )
    return [f"last profiling turn: {of.job}, {seconds(of.length_s)}; cost to others {cost}{share}"]


def _share(value: float | None, jobs: int, how: str) -> str:
    return f"unknown {how}" if value is None else f"{value:.1%} {how} ({jobs} jobs)"


def _job(one: PlannedJob) -> str:
    words = f"{one.name}: rank {one.rank}, level {one.level}"
    if one.dscp is not None:
        words += f", DSCP {one.dscp}"
    words += f", weight {one.weight:.3g} ({one.factor:.3g} times its owner's)"
    return words + (f", work assumed: {one.work_assumed}" if one.work_assumed else "")


def _how(state: PlanState) -> str:
    if state.alone:
        return "agreed with nobody"
    if state.agreed:
        return "agreed"
    return f"after waiting for {_names(state)}" if state.missing else "after waiting"


def _names(state: PlanState) -> str:
    missing = state.missing
    more = ", ..." if len(missing) > MISSING_SHOWN else ""
    return f"{', '.join(missing[:MISSING_SHOWN])}{more}" or "nobody"
