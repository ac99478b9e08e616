"""Jobs that fit beside each other and share a link: with gates, without them, and under cubic."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks import bars, campaign, goals, options
from benchmarks.context import Context
from benchmarks.figures import Figures
from benchmarks.headings import columns
from benchmarks.record import Cell, Column, Record, Spread, Verdict
from benchmarks.shift_cases import CASES, scenario_of
from hostcc.lab import override

SUBJECT, WITHOUT, REFERENCE = "hostcc", "no-shifts", "cubic"
VARIANTS = (SUBJECT, WITHOUT, REFERENCE)
USUAL = ("rings-1", "rings-4", "rings-8", "ddp")
"""Cases when the command line names none: all take some hours."""
NO_SLOWER, AS_GOOD = 1.02, 1.01
"""Times cubic's mean, which nothing may exceed; and times the best of the others, where jobs do not
fit."""
LEGEND = (
    "ratios to each job alone, median (least..greatest) over the runs; mean: over all iterations, "
    "of which the first pass before the jobs are known; rest: after the tenth; p99: worst job"
)


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
        cells = measured.cells(name)
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
            *columns(Figures, "mean", "first", "rest", "p99_rest", "slowest_job", "loss_percent"),
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
    bounds = (("rest", "rest", goal.mean), ("p99", "p99_rest", goal.p99))
    made = [
        goals.verdict(case, f"{word} <= {most:g}", own[figure].values, at_most=most)
        for word, figure, most in bounds
        if most is not None
    ]
    usual = cells[REFERENCE]["mean"].median if REFERENCE in cells else None
    if usual:
        words = f"mean <= {NO_SLOWER:g} of cubic's"
        made.append(goals.verdict(case, words, _over(own["mean"], usual), at_most=NO_SLOWER))
    others = [cells[name]["rest"].median for name in cells if name != SUBJECT]
    best = min((one for one in others if one is not None), default=None)
    if best and goal.mean is None:
        words = f"rest <= {AS_GOOD:g} of the best other"
        made.append(goals.verdict(case, words, _over(own["rest"], best), at_most=AS_GOOD))
    return made


def _over(of: Spread, reference: float) -> list[float | None]:
    return [None if one is None else one / reference for one in of.values]


def draw(record: Record, out: Path) -> Sequence[Path]:
    """Mean after the tenth iteration, a panel per case."""
    return [
        bars.draw(
            record, out / "shifts.png", panel=("case",), bar="variant", figure="rest",
            label="mean iteration time after the tenth / alone",
        )
    ]  # fmt: skip
