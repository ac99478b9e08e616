"""Jobs that fit beside each other and share a link: with gates, without them, and under cubic."""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np

from benchmarks import bars, campaign, goals, options
from benchmarks.context import Context
from benchmarks.figures import Figures
from benchmarks.headings import Heading, columns
from benchmarks.headings import cells as over_runs
from benchmarks.record import Cell, Column, Record, Spread, Verdict, spread
from benchmarks.shift_cases import CASES, CHANGE_ITERATION, Case, scenario_of
from hostcc.errors import InputError
from hostcc.lab import override
from hostcc.lab.results import RunResult, VariantResult
from hostcc.lab.statistics import FIRST_ITERATIONS

SUBJECT, WITHOUT, REFERENCE = "hostcc", "no-shifts", "cubic"
VARIANTS = (SUBJECT, WITHOUT, REFERENCE)
USUAL = ("rings-1", "rings-4", "rings-8", "ddp")
"""Cases when the command line names none: all take some hours."""
NO_SLOWER, AS_GOOD = 1.02, 1.01
"""Times cubic's mean, which nothing may exceed; and times the best of the others, where jobs do not
fit."""
SETTLE_ITERATIONS = 5
"""Of each job, once all take turns, until its iterations count."""
CHANGED_ITERATIONS = 10
"""Of each job, after something has changed, until its iterations count."""
LEGEND = (
    "ratios to each job alone, median (least..greatest) over the runs; mean: over all iterations; "
    f"held: from {SETTLE_ITERATIONS} iterations after all jobs take turns, or after the tenth "
    f"where they take none, and from {CHANGED_ITERATIONS} after a change; p99: worst job; that of "
    "alone: of the jobs without each other, over their medians"
)


@dataclass(frozen=True)
class HeldFigures:
    """Iterations of one run once its jobs take turns, in times the time alone."""

    held: Annotated[float, Heading("held")]
    """Mean of the jobs' means."""
    p99_held: Annotated[float, Heading("p99 of held")]
    """Of the worst job."""
    turns_from_s: Annotated[float | None, Heading("turns from s", 1)]
    """When the last job began to take turns; None: not all did."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Cases, variants, iterations."""
    parser.add_argument(
        "--cases",
        type=options.names("--cases", tuple(CASES)),
        default=USUAL,
        metavar="NAME,NAME,...",
        help=f"of {', '.join(CASES)} (default: {','.join(USUAL)})",
    )
    options.add_variants(parser, VARIANTS)
    options.add_iterations(parser, 120)


def run(args: argparse.Namespace, context: Context) -> Record:
    """Measure the table."""
    least = CHANGE_ITERATION + CHANGED_ITERATIONS
    changing = [name for name in args.cases if CASES[name].change_at]
    if changing and args.iterations <= least:
        raise InputError(f"--iterations: expected more than {least} with {', '.join(changing)}")
    groups = [
        campaign.Group(
            name,
            override.overridden(
                scenario_of(name), {"iterations": args.iterations, "alone": args.alone}
            ),
            args.variants,
        )
        for name in args.cases
    ]
    measured = campaign.run(groups, context)
    if context.out:
        campaign.keep(measured, context.out)
    rows: list[dict[str, Cell]] = []
    verdicts: list[Verdict] = []
    for name in args.cases:
        found = measured.group(name)
        late = {} if found is None else {
            variant.name: {
                **over_runs([held(run, CASES[name]) for run in variant.runs]),
                "p99_alone": spread([p99_alone(variant)]),
            }
            for variant in found.variants
        }  # fmt: skip
        cells = {
            variant: {**cell, **late[variant]} for variant, cell in measured.cells(name).items()
        }
        here = judge(name, cells)
        verdicts += here
        rows += [
            {
                "case": name,
                "variant": variant,
                **cell,
                "goals": goals.short(here) if variant == SUBJECT else "",
            }
            for variant, cell in cells.items()
        ]
    return Record(
        benchmark="shifts",
        title="jobs that fit beside each other on one link: iteration time / alone",
        parameters={
            "cases": list(args.cases),
            "variants": list(args.variants),
            "iterations": args.iterations,
            "alone": args.alone,
            "runs": context.runs,
        },
        columns=[
            Column("case", "case"),
            Column("variant", "variant"),
            *columns(Figures, "mean", "first"),
            *columns(HeldFigures),
            Column("p99_alone", "p99 alone"),
            *columns(Figures, "slowest_job", "loss_percent"),
            Column("goals", "goals"),
        ],
        rows=rows,
        goals=verdicts,
        notes=[LEGEND, *measured.notes],
        failures=measured.failures,
    )


def judge(case: str, cells: Mapping[str, Mapping[str, Spread]]) -> list[Verdict]:
    """Hold jobs with gates against their times alone, and against cubic's in the same run."""
    if SUBJECT not in cells:
        return []
    own, goal = cells[SUBJECT], CASES[case].goal
    bounds = (("held", "held", goal.mean), ("p99", "p99_held", goal.p99))
    made = [
        goals.verdict(case, f"{word} <= {most:g}", own[figure].values, at_most=most)
        for word, figure, most in bounds
        if most is not None
    ]
    usual = cells[REFERENCE]["mean"].median if REFERENCE in cells else None
    if usual:
        words = f"mean <= {NO_SLOWER:g} of cubic's"
        made.append(goals.verdict(case, words, _over(own["mean"], usual), at_most=NO_SLOWER))
    others = [cells[name]["held"].median for name in cells if name != SUBJECT]
    best = min((one for one in others if one is not None), default=None)
    if best and goal.mean is None:
        words = f"held <= {AS_GOOD:g} of the best other"
        made.append(goals.verdict(case, words, _over(own["held"], best), at_most=AS_GOOD))
    return made


def held(run: RunResult, case: Case) -> HeldFigures:
    """The figures of a run; where too few iterations are left, of the last one.

    Where something changes in mid-run, only what follows it counts, and jobs that have left do not.
    """
    change_s = -math.inf
    if case.change_at:
        first_starts_s = run.jobs[0].starts_s
        change_s = first_starts_s[min(case.change_at, len(first_starts_s)) - 1]
    turns = [job.turns_from_s for job in run.jobs if job.turns_from_s is not None]
    begin_s = max(turns) if len(turns) == len(run.jobs) > 0 else None
    ratios = []
    for at, job in enumerate(run.jobs):
        first = FIRST_ITERATIONS
        if begin_s is not None:
            first = int(np.searchsorted(job.starts_s, begin_s)) + SETTLE_ITERATIONS
        alone_s = job.summary.alone_s
        if case.change_at:
            after = int(np.searchsorted(job.starts_s, change_s))
            if after == len(job.starts_s):
                continue
            first = max(first, after + CHANGED_ITERATIONS)
            alone_s *= case.alone_ratio(at)
        kept = min(first, len(job.seconds) - 1)
        ratios.append(np.array(job.seconds[kept:]) / alone_s)
    return HeldFigures(
        float(np.mean([one.mean() for one in ratios])),
        float(max(np.percentile(one, 99) for one in ratios)),
        begin_s,
    )


def p99_alone(variant: VariantResult) -> float | None:
    """Return the 99th percentile of a job alone over its median, of the worst job; None: unknown.

    What a job varies by itself no turns can take away.
    """
    alone = [seconds for seconds in variant.alone_seconds.values() if seconds]
    ratios = (np.percentile(one, 99) / np.median(one) for one in alone)
    return float(max(ratios)) if alone else None


def _over(of: Spread, reference: float) -> list[float | None]:
    return [None if one is None else one / reference for one in of.values]


def draw(record: Record, out: Path) -> Sequence[Path]:
    """Mean once jobs take turns, a panel per case."""
    return [
        bars.draw(
            record, out / "shifts.png", panel=("case",), bar="variant", figure="held",
            label="mean iteration time once jobs take turns / alone",
        )
    ]  # fmt: skip
