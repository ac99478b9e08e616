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
from hostcc.lab import override, scenario

SUBJECT, WITHOUT, REFERENCE = "hostcc", "no-shifts", "cubic"
VARIANTS = (SUBJECT, WITHOUT, REFERENCE)
CASES: Mapping[str, tuple[str, int]] = {
    **{f"rings-{flows}": ("two-rings", flows) for flows in (1, 2, 4, 8)},
    "ddp": ("two-ddp", 1),
}
"""Name -> scenario, connections of each job; those of a command are its own affair."""
MEAN, P99 = 1.03, 1.08
"""Times the time alone, after the first ten iterations: mean of the jobs, and the worst job's
99th percentile."""
NO_SLOWER = 1.02
"""Times cubic's mean, which nothing may exceed."""
LEGEND = (
    "ratios to each job alone, median (least..greatest) over the runs; mean: over all iterations, "
    "of which the first pass before the jobs are known; rest: after the tenth; p99: worst job"
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Cases, variants, iterations."""
    parser.add_argument(
        "--cases",
        type=options.names("--cases", tuple(CASES)),
        default=tuple(CASES),
        metavar="NAME,NAME,...",
        help=f"(default: {','.join(CASES)})",
    )
    options.add_variants(parser, VARIANTS)
    options.add_iterations(parser, 120)


def run(args: argparse.Namespace, context: Context) -> Record:
    """Measure the table."""
    groups = [
        campaign.Group(
            name,
            override.overridden(
                scenario.load(scenario.find(CASES[name][0])),
                {"flows": CASES[name][1], "iterations": args.iterations, "alone": args.alone},
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
    own = cells[SUBJECT]
    made = [
        goals.verdict(case, f"rest <= {MEAN:g}", own["rest"].values, at_most=MEAN),
        goals.verdict(case, f"p99 <= {P99:g}", own["p99_rest"].values, at_most=P99),
    ]
    usual = cells[REFERENCE]["mean"].median if REFERENCE in cells else None
    if usual:
        ratios = [None if one is None else one / usual for one in own["mean"].values]
        words = f"mean <= {NO_SLOWER:g} of cubic's"
        made.append(goals.verdict(case, words, ratios, at_most=NO_SLOWER))
    return made


def draw(record: Record, out: Path) -> Sequence[Path]:
    """Mean after the tenth iteration, a panel per case."""
    return [
        bars.draw(
            record, out / "shifts.png", panel=("case",), bar="variant", figure="rest",
            label="mean iteration time after the tenth / alone",
        )
    ]  # fmt: skip
