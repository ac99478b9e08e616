"""Which jobs take turns: those that share a link that they can fill, fit beside each other, and are
known well enough.  Pure.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from hostcc.schedule.plan import Solution

MAX_LOAD = 1.1
"""Share of the time that a job and its rivals send in all: with more, one of them always waits.
More than one, because a profile that was measured beside others overestimates what a job sends."""
MIN_CONFIDENCE = 0.5
"""Confidence of a profile from which a job is held: its period is known."""
MIN_DENSITY = 0.6
"""Share of its communication phase that a job's bytes need of a link: with less, it has pauses
that others use, and a turn would waste them."""
MAX_PERIOD_RATIO, MAX_MULTIPLE_RATIO = 1.25, 1.125
"""Of two jobs' periods, and beside twice, three times, ... one of them: with more the jobs meet
again and again, and waiting gains little of what it costs.  Half of the first is for what is
measured while both disturb each other."""
MAX_MULTIPLE_LOAD = 0.85
"""Of two jobs with periods of which one is a multiple: share of the shorter one that the bursts of
both may take.  In what is left news of turns has to come, and computing to vary."""
MAX_RIVALS = 32
"""Rivals of a job; with more it is left alone, because each of them has to be told."""

UNMEASURED = "its period is not known well enough"
SPARSE = "it pauses while it communicates"
CROWDED = f"more than {MAX_RIVALS} jobs share its links"
OTHER_PERIODS = "no job on its links has iterations that fit to its own"
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

    A job takes turns with another if their iterations fit to each other, and the load of both fits
    their links: its own and that of those that it meets there.
    """
    met: dict[str, set[str]] = {name: set() for name in exchanges}
    for one, other in pairs:
        met[one].add(other)
        met[other].add(one)
    reasons = {name: _reason(name, met, exchanges) for name in exchanges}
    plans = {}
    for name, exchange in exchanges.items():
        able = sorted(other for other in met[name] if not reasons[other])
        rivals, why = tuple[str, ...](), reasons[name]
        if not why:
            rivals = tuple(other for other in able if _match(exchange, exchanges[other]))
        if not why and not rivals:
            why = OTHER_PERIODS if able else _others_reason(met[name], reasons)
        plans[name] = GatePlan(exchange, rivals, why)
    return plans


def _match(one: Exchange, other: Exchange) -> bool:
    """Tell whether jobs that once sent one after the other do so again in later iterations."""
    long, short = (one, other) if one.period_s >= other.period_s else (other, one)
    ratio = long.period_s / short.period_s
    if ratio <= MAX_PERIOD_RATIO:
        return True
    # Jobs of equal length wait at the worst once; of others each long burst has to fit.
    beside = ratio / max(2, round(ratio))
    busy_s = long.burst_s + short.burst_s
    fits = busy_s <= MAX_MULTIPLE_LOAD * short.period_s
    return fits and max(beside, 1 / beside) <= MAX_MULTIPLE_RATIO


def _reason(name: str, all_met: Mapping[str, set[str]], exchanges: Mapping[str, Exchange]) -> str:
    own, met = exchanges[name], all_met[name]
    if not met or own.reason:
        return own.reason or ALONE
    if len(met) > MAX_RIVALS:
        return CROWDED
    # Those of two links do not meet each other, and send at once.
    shares = {one: exchanges[one].share if exchanges[one].period_s > 0 else 0.0 for one in met}
    beside = (math.fsum(shares[one] for one in {other, *met & all_met[other]}) for other in met)
    load = own.share + max(beside)
    if load > MAX_LOAD:
        return f"jobs on its links send {load:.0%} of the time in all, more than {MAX_LOAD:.0%}"
    return ""


def _others_reason(met: set[str], reasons: Mapping[str, str]) -> str:
    other = min(met)
    return f"no job that it meets takes turns: {other}: {reasons[other]}"


def planned(solution: Solution, own: Collection[str]) -> dict[str, GatePlan]:
    """Return the plans of these jobs and of all that they meet, as far as the solution has them."""
    problem, met = solution.problem, solution.met
    names = problem.job_ids
    wanted = np.isin(np.arange(len(names)), [at for at, name in enumerate(names) if name in own])
    # What a job that is met meets in turn decides whether it takes turns.
    near = wanted[met.one] | wanted[met.other]
    wanted[met.one[near]] = wanted[met.other[near]] = True
    on = wanted[met.one] | wanted[met.other]
    one, other = met.one[on], met.other[on]
    wanted[one] = wanted[other] = True
    # The plan knows its links, a job's hosts what else may limit it.
    times = np.maximum(solution.times, problem.comm)
    alone = np.maximum(problem.compute, problem.comm_start + times)
    burst = np.maximum(alone - problem.comm_start, times)
    period = np.where(problem.period > 0, alone, 0.0)
    figures = zip(period, burst, solution.times, problem.confidence, strict=True)
    exchanges = {
        name: Exchange(*map(float, of))
        for name, of, there in zip(names, figures, wanted, strict=True)
        if there
    }
    pairs = zip(one.tolist(), other.tolist(), strict=True)
    return group(exchanges, ((names[first], names[second]) for first, second in pairs))


def hosts(solution: Solution, jobs: Collection[str]) -> dict[str, tuple[str, ...]]:
    """Return job -> the hosts that send for it, by name."""
    problem, ends = solution.problem, solution.reading.tables.keys
    found: dict[str, set[str]] = {name: set() for name in jobs}
    numbers = {at: name for at, name in enumerate(problem.job_ids) if name in found}
    on = np.isin(problem.flow_job, list(numbers))
    pairs = zip(problem.flow_job[on].tolist(), problem.flow_table[on].tolist(), strict=True)
    for number, table in set(pairs):
        found[numbers[number]].add(ends[table][0])
    return {name: tuple(sorted(of)) for name, of in found.items()}
