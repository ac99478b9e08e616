"""Compares the plan that a host is to follow with those of other members, job by job.  Pure.

Views may differ where plans are the same, so plans are compared by digests of their own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b

import msgspec

from hostcc.coord.core.message import JOB_DIGEST_BYTES, MAX_JOB_DIGESTS
from hostcc.model import Flow, Plan

DIGEST_BYTES = 16


@dataclass(frozen=True)
class PlanDigests:
    """What a member tells of a plan: not of its view, and not of its reasons."""

    plan: str = ""
    """Of the whole; empty: there is nothing to do by it, or the member's version is older."""
    jobs: Mapping[str, bytes] = field(default_factory=dict)
    """Job -> digest of what hosts do for it."""

    def of(self, jobs: Collection[str]) -> PlanDigests:
        """Return what is reported by a host of these jobs; the first MAX_JOB_DIGESTS by name."""
        mine = sorted(self.jobs.keys() & set(jobs))[:MAX_JOB_DIGESTS]
        return PlanDigests(self.plan, {job: self.jobs[job] for job in mine})


NO_PLAN = PlanDigests()


@dataclass(frozen=True)
class FollowedPlan:
    """What a member reports of the plan that it is to follow."""

    active: str = ""
    """Digest of the plan's view; empty: none is active yet."""
    digests: PlanDigests = NO_PLAN


def digests(plan: Plan | None, flows: Iterable[Flow]) -> PlanDigests:
    """Return the digests of a plan and of each of its jobs: level, shift, parameters and paths.

    `flows` are those of its view.  A rank is not acted upon, so it is no part of them.
    """
    if plan is None or not (plan.jobs or plan.flows):
        return NO_PLAN
    owner = {flow.id: flow.job for flow in flows}
    paths: dict[str, list[tuple[str, str]]] = {}
    for one in plan.flows:
        paths.setdefault(owner.get(one.flow, ""), []).append((one.flow, one.path))
    jobs = {}
    for job in plan.jobs:
        acts = job.level, job.shift_s, sorted(job.parameters), sorted(paths.get(job.job, ()))
        jobs[job.job] = _hash(acts, JOB_DIGEST_BYTES).digest()
    return PlanDigests(_hash(sorted(jobs.items()), DIGEST_BYTES).hexdigest(), jobs)


def differing(own: FollowedPlan, other: FollowedPlan, shared: Collection[str]) -> frozenset[str]:
    """Return those of the `shared` jobs for which two members are to follow different plans.

    Where one of them reports no plan, because it follows none or its version is older, all of them
    count if their views differ.
    """
    one, two = own.digests, other.digests
    if one.plan and two.plan:
        if one.plan == two.plan:
            return frozenset()
        whole = len(two.jobs) < MAX_JOB_DIGESTS
        return frozenset(
            job
            for job in shared
            if (whole or job in two.jobs) and one.jobs.get(job) != two.jobs.get(job)
        )
    if "" in (own.active, other.active) or own.active == other.active:
        return frozenset()
    return frozenset(shared)


def agree(own: FollowedPlan, other: FollowedPlan, shared: Collection[str]) -> bool:
    """Tell whether two members follow the same plan for the `shared` jobs and the other's own."""
    one, two = own.digests, other.digests
    if not (one.plan and two.plan):
        return own.active == other.active != ""
    theirs = two.jobs.items()
    same = all(one.jobs.get(job, digest) == digest for job, digest in theirs)
    return same and not differing(own, other, shared)


def step(
    since: Mapping[tuple[str, str], float],
    now: float,
    found: Mapping[str, Collection[str]],
) -> dict[tuple[str, str], float]:
    """Return (job, member) -> when they began to differ, seconds.

    `since` is the result of the step before; `found`: member -> jobs in which it differs at `now`.
    """
    pairs = [(job, member) for member, jobs in found.items() for job in jobs]
    return {pair: since.get(pair, now) for pair in pairs}


def _hash(what: object, size: int) -> blake2b:
    return blake2b(msgspec.msgpack.encode(what), digest_size=size)
