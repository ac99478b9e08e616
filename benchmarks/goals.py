"""Pure: the goals of measurements, as data, and the test whether they are met.

A goal bounds one figure of hostcc's own variant, as it is or relative to other variants'
medians in the same scenario with the same number of flows.  It is met when the median over
the runs meets it; the number of runs that do is shown beside it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from benchmarks.record import Spread, Verdict, number, spread

SUBJECT = "hostcc"
OTHERS = ("cubic", "reno", "bbr")
"""What people use today."""
REFERENCE = "cubic"
RESOLUTION = 0.005
"""Ratios closer than this are the same: medians of identical runs differ by as much."""

TWO_OR_THREE = frozenset({"two-jobs", "three-jobs", "mixed-compatible"})
SIX = frozenset({"six-jobs"})
COMPATIBLE = TWO_OR_THREE | SIX
INCOMPATIBLE = frozenset({"mixed-incompatible", "two-heavy"})
NOT_PERIODIC = frozenset({"irregular", "no-pauses"})
NOT_STEERED = frozenset({"rings-incompatible", "ddp", "ddp-buckets", "ddp-overlap", "pipelines"})
"""Jobs that receive while they send, and such as are hard to tell from them."""
MANY_FLOWS = frozenset({8})


class Relation(Enum):
    """What a figure is compared with."""

    ITSELF = "itself"
    TO_BEST = "over the best of cubic, reno, bbr"
    TO_REFERENCE = "over cubic's"
    GAIN = "cubic's over hostcc's"


@dataclass(frozen=True)
class Goal:
    """One bound."""

    words: str
    figure: str
    """Field of Figures."""
    scenarios: frozenset[str]
    at_most: float = math.inf
    at_least: float = -math.inf
    relation: Relation = Relation.ITSELF
    flows: frozenset[int] | None = None
    """None: any number."""


GOALS: tuple[Goal, ...] = (
    Goal("converged after <= 4 iterations", "converged_after", COMPATIBLE, at_most=4),
    Goal("mean <= 1.03", "mean", TWO_OR_THREE, at_most=1.03),
    Goal("mean <= 1.05", "mean", SIX, at_most=1.05),
    Goal("rest <= 1.02", "rest", COMPATIBLE, at_most=1.02),
    Goal("p99 <= 1.10", "p99_rest", COMPATIBLE, at_most=1.10),
    Goal("loss < 0.5 %", "loss_percent", COMPATIBLE, at_most=math.nextafter(0.5, 0)),
    Goal(
        "mean no worse than the best of cubic, reno, bbr",
        "mean",
        COMPATIBLE,
        at_most=1 + RESOLUTION,
        relation=Relation.TO_BEST,
    ),
    Goal(
        "mean 1.3 times better than cubic's",
        "mean",
        COMPATIBLE,
        at_least=1.3,
        relation=Relation.GAIN,
        flows=MANY_FLOWS,
    ),
    Goal(
        "mean <= 1.02 of the best of cubic, reno, bbr",
        "mean",
        INCOMPATIBLE,
        at_most=1.02,
        relation=Relation.TO_BEST,
    ),
    Goal(
        "mean <= 1.02 of cubic's",
        "mean",
        NOT_PERIODIC,
        at_most=1.02,
        relation=Relation.TO_REFERENCE,
    ),
    Goal(
        "mean <= 1.01 of cubic's",
        "mean",
        NOT_STEERED,
        at_most=1.01,
        relation=Relation.TO_REFERENCE,
    ),
    Goal(
        "no job starves: the slowest <= 1.10 of cubic's slowest",
        "slowest_job",
        INCOMPATIBLE | NOT_PERIODIC,
        at_most=1.10,
        relation=Relation.TO_REFERENCE,
    ),
)

Cells = Mapping[str, Mapping[str, Spread]]
"""variant -> figure -> over the runs, for one scenario and number of flows."""


def judge(scenario: str, flows: int, cells: Cells, scope: str) -> list[Verdict]:
    """Every goal that applies and for which there are measurements."""
    verdicts = []
    for goal in GOALS:
        if scenario not in goal.scenarios or (goal.flows is not None and flows not in goal.flows):
            continue
        measured = _measured(goal, cells)
        if measured is not None:
            verdicts.append(verdict(scope, goal.words, measured, goal.at_most, goal.at_least))
    return verdicts


def verdict(
    scope: str,
    words: str,
    values: Sequence[float | None],
    at_most: float = math.inf,
    at_least: float = -math.inf,
) -> Verdict:
    """Hold the values of several runs against bounds."""

    def good(value: float | None) -> bool:
        return at_least <= number(value) <= at_most

    measured = spread(values)
    return Verdict(scope, words, measured, sum(map(good, values)), good(measured.median))


def short(verdicts: Sequence[Verdict]) -> str:
    """All verdicts of a row in a few words; empty when there are none."""
    missed = [entry.goal for entry in verdicts if not entry.met]
    if missed:
        return "FAIL: " + "; ".join(missed)
    return "PASS" if verdicts else ""


def _measured(goal: Goal, cells: Cells) -> list[float | None] | None:
    if SUBJECT not in cells:
        return None
    own = cells[SUBJECT][goal.figure].values
    if goal.relation is Relation.ITSELF:
        return list(own)
    names = OTHERS if goal.relation is Relation.TO_BEST else (REFERENCE,)
    others = [number(cells[name][goal.figure].median) for name in names if name in cells]
    if not others:
        return None
    other = min(others)
    if goal.relation is Relation.GAIN:
        return [other / number(value) for value in own]
    return [number(value) / other for value in own]
