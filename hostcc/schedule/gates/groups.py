"""Which jobs take turns: those that share a link that they can fill, fit beside each other, and are
known well enough.  Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from hostcc.schedule.plan import Solution

MAX_LOAD = 0.95
"""Share of the time that a job and its rivals send in all: with more, one of them always waits."""
MIN_CONFIDENCE = 0.5
"""Confidence of a profile from which a job is held: its period is known."""
MIN_DENSITY = 0.6
"""Share of its communication phase that a job's bytes need of a link: with less, it has pauses
that others use, and a turn would waste them."""
MAX_RIVALS = 32
"""Rivals of a job; with more it is left alone, because each of them has to be told."""

UNMEASURED = "its period is not known well enough"
SPARSE = "it pauses while it communicates"
CROWDED = f"more than {MAX_RIVALS} jobs share its links"
ALONE = "no job shares a link with it that they can fill"


@dataclass(frozen=True)
class Exchange:
    """How a job uses links, alone."""

    period_s: float
    """From one iteration to the next; 0: unknown."""
    burst_s: float
    """From the first to the last byte of an iteration."""
    link_s: float
    """That its bytes need on the slowest link."""
    confidence: float
    """Of the profile, 0 to 1."""

    @property
    def share(self) -> float:
        """Fraction of the time that it sends."""
        return self.burst_s / self.period_s if self.period_s > 0 else 1.0

    @property
    def reason(self) -> str:
        """Why it takes no turns, whoever the others are; empty: it may."""
        if self.period_s <= 0 or self.burst_s <= 0 or self.confidence < MIN_CONFIDENCE:
            return UNMEASURED
        return SPARSE if self.link_s < MIN_DENSITY * self.burst_s else ""


@dataclass(frozen=True)
class GatePlan:
    """With whom a job takes turns."""

    exchange: Exchange
    rivals: tuple[str, ...] = ()
    """Jobs that it waits for, by name."""
    reason: str = ""
    """Why it takes no turns; empty: it does."""


def group(
    exchanges: Mapping[str, Exchange], pairs: Iterable[tuple[str, str]]
) -> dict[str, GatePlan]:
    """Return the plan of each job; `pairs`: jobs that share a link that they can fill.

    A job takes turns with another if the load of both fits: its own and that of all that it meets.
    """
    met: dict[str, set[str]] = {name: set() for name in exchanges}
    for one, other in pairs:
        met[one].add(other)
        met[other].add(one)
    reasons = {name: _reason(name, met[name], exchanges) for name in exchanges}
    plans = {}
    for name, exchange in exchanges.items():
        rivals = tuple(sorted(other for other in met[name] if not reasons[other]))
        why = reasons[name]
        if not why and not rivals:
            why = _others_reason(met[name], reasons)
        plans[name] = GatePlan(exchange, () if why else rivals, why)
    return plans


def _reason(name: str, met: set[str], exchanges: Mapping[str, Exchange]) -> str:
    own = exchanges[name]
    if not met or own.reason:
        return own.reason or ALONE
    if len(met) > MAX_RIVALS:
        return CROWDED
    load = own.share + sum(exchanges[other].share for other in met if exchanges[other].period_s > 0)
    if load > MAX_LOAD:
        return f"jobs on its links send {load:.0%} of the time in all, more than {MAX_LOAD:.0%}"
    return ""


def _others_reason(met: set[str], reasons: Mapping[str, str]) -> str:
    other = min(met)
    return f"no job that it meets takes turns: {other}: {reasons[other]}"


def planned(solution: Solution) -> dict[str, GatePlan]:
    """Return the plan of each job of a solution."""
    problem, met = solution.problem, solution.met
    names = problem.job_ids
    alone = np.maximum(problem.compute, problem.comm_start + solution.times)
    burst = np.maximum(alone - problem.comm_start, solution.times)
    period = np.where(problem.period > 0, alone, 0.0)
    exchanges = {
        name: Exchange(*map(float, figures))
        for name, *figures in zip(
            names, period, burst, solution.times, problem.confidence, strict=True
        )
    }
    pairs = zip(met.one.tolist(), met.other.tolist(), strict=True)
    return group(exchanges, ((names[one], names[other]) for one, other in pairs))
