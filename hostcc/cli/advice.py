"""What would help on this host, from an agent's status.  Pure.

Each piece of advice has an identifier that stays the same, for scripts and for pages that explain
it.  A problem keeps what is on from having its effect; a chance is what could be on as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum

from msgspec import Struct

from hostcc.answers.links import Utilisation
from hostcc.answers.parts import Part, part_of
from hostcc.answers.status import JobStatus, Status

NAMED_JOBS = 3
TWO_WAY = "two-way"
PATHS_OFF = "paths.enabled is false"
MARKING_OFF = "marking.enabled is false"
STEERING_OFF = "paths.steer is false"
"""Why parts are off that an operator could have on: they also are where nothing may be changed."""


class Kind(StrEnum):
    """How much it matters."""

    PROBLEM = "problem"
    CHANCE = "chance"


class Advice(Struct, frozen=True, kw_only=True):
    """One thing to do."""

    id: str
    kind: Kind
    found: str
    """What is so now."""
    brings: str
    """What would be better here; with figures where they are known."""
    do: str
    """What to do."""


def advice(status: Status) -> list[Advice]:
    """Return what would help, problems first."""
    parts = [part_of(row) for row in status.parts]
    why = {part.name: part.reason or "" for part in parts if part.state == "off"}
    found = [*_acting(status), *_plans(status, why), *_jobs(status, why), *_care(status, parts)]
    return sorted(found, key=lambda one: one.kind is not Kind.PROBLEM)


def _acting(status: Status) -> Iterator[Advice]:
    agent = status.agent
    if agent.state != "active":
        yield Advice(
            id="observing",
            kind=Kind.CHANCE,
            found=f"the agent only observes: {agent.reason}",
            brings="jobs are measured and planned, and nothing of that has an effect",
            do="take observe_only out of [agent], then restart the agent",
        )
    elif agent.mode == "off":
        yield Advice(
            id="mode-off",
            kind=Kind.CHANCE,
            found="jobs run the host's default congestion control",
            brings="with mltcp, jobs that send in one direction move their bursts apart",
            do="hostcc unfair mltcp",
        )


def _plans(status: Status, why: Mapping[str, str]) -> Iterator[Advice]:
    """`why`: part that is off -> the reason."""
    if "gossip" in why:
        yield Advice(
            id="gossip-off",
            kind=Kind.CHANCE,
            found="this host knows nothing of jobs on other hosts",
            brings="plans: priorities, paths and weights that all hosts of a job agree on",
            do="hostcc keys new, then [gossip] with seeds (docs/keys.md)",
        )
        return
    gossip, plan = status.gossip, status.plan
    if gossip is not None and not any(gossip.members.values()):
        yield Advice(
            id="gossip-alone",
            kind=Kind.PROBLEM,
            found="gossip is on, and no other member was ever heard of",
            brings="plans that know of other hosts' jobs",
            do="name two or three other hosts as seeds in [gossip]; hostcc peers says what fails",
        )
    if why.get("paths") == PATHS_OFF:
        yield Advice(
            id="paths-off",
            kind=Kind.PROBLEM,
            found="gossip is on and paths are off: plans know no links, so they have no effect",
            brings="who shares which link, and with it priorities, paths and weights",
            do="[paths] enabled = true on every host (docs/internals/paths.md)",
        )
        return
    cluster = plan.cluster if plan is not None else None
    if cluster is not None and cluster.at_risk and why.get("marking") == MARKING_OFF:
        yield Advice(
            id="marking-off",
            kind=Kind.CHANCE,
            found="plans give levels to jobs, and packets are not marked",
            brings=f"switches with queues by DSCP serve intense jobs first; {_risk(cluster)}",
            do="[marking] with the DSCP of your switches' queues (docs/internals/planning.md)",
        )
    if cluster is not None and cluster.at_risk and why.get("steering") == STEERING_OFF:
        yield Advice(
            id="steering-off",
            kind=Kind.CHANCE,
            found="plans choose paths, and flows stay where ECMP put them",
            brings=f"large flows leave shared links; {_risk(cluster)}",
            do="[paths] steer = true (docs/internals/steering.md)",
        )


def _jobs(status: Status, why: Mapping[str, str]) -> Iterator[Advice]:
    if not status.jobs and "discovery" in why:
        yield Advice(
            id="no-jobs",
            kind=Kind.CHANCE,
            found="there is no job, and jobs are not looked for",
            brings="jobs of Slurm, Kubernetes and systemd are found without hostcc run",
            do="[discover] enabled = true, or start jobs with hostcc run",
        )
    planned = status.plan.jobs if status.plan is not None else ()
    assumed = [one.name for one in planned if one.work_assumed]
    if assumed:
        yield Advice(
            id="work-assumed",
            kind=Kind.CHANCE,
            found=f"the work of {_named(assumed)} is not measured but assumed",
            brings="an order by true GPU intensity where jobs differ",
            do="hostcc doctor says why GPUs are not read here; or hostcc run --flops",
        )
    both = [job.name for job in status.jobs if _is_helped_by_plans_only(job)]
    if both and why.get("paths") == PATHS_OFF:
        yield Advice(
            id="two-way-jobs",
            kind=Kind.CHANCE,
            found=f"{_named(both)}: as much is received as sent, so windows are not scaled",
            brings="rings and DistributedDataParallel gain by paths and marks, not by windows",
            do="[gossip], then [paths] enabled = true and [marking]",
        )


def _care(status: Status, parts: Sequence[Part]) -> Iterator[Advice]:
    for part in parts:
        if part.state == "failed":
            yield Advice(
                id=f"part-failed-{part.name}",
                kind=Kind.PROBLEM,
                found=f"part {part.name} failed: {part.reason}",
                brings="what the part is for",
                do="it is tried again by itself; hostcc doctor says what the host lacks",
            )
    if status.agent.differences:
        yield Advice(
            id="edited",
            kind=Kind.PROBLEM,
            found=f"{status.agent.differences} of hostcc's settings were changed by somebody else",
            brings="hostcc stands aside from them until they are as it left them",
            do="hostcc verify names them",
        )


def _is_helped_by_plans_only(job: JobStatus) -> bool:
    return job.mode == "mltcp" and job.direction == TWO_WAY


def _risk(cluster: Utilisation) -> str:
    words = f"{cluster.at_risk} jobs at risk of contention, {cluster.relieved} relieved by the plan"
    if cluster.predicted is not None:
        words += f", GPU utilisation {cluster.predicted:.0%} as planned"
    if cluster.measured is not None:
        words += f", {cluster.measured:.0%} as measured"
    return words


def _named(names: list[str]) -> str:
    more = len(names) - NAMED_JOBS
    return ", ".join(names[:NAMED_JOBS]) + (f" and {more} more" if more > 0 else "")
