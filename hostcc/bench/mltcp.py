"""The main table: jobs that start together on one bottleneck, hostcc beside the others."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from hostcc.bench import bars, campaign, goals, options
from hostcc.bench.context import Context
from hostcc.bench.record import Cell, Column, Record
from hostcc.lab import override, scenario

SCENARIOS = (
    "two-jobs",
    "three-jobs",
    "six-jobs",
    "mixed-compatible",
    "mixed-incompatible",
    "two-heavy",
    "irregular",
    "no-pauses",
)
FLOWS = (1, 8)
VARIANTS = ("hostcc", "mltcp-reno", "mltcp-cubic", "cubic", "reno", "bbr")
FIGURES = (
    Column("mean", "mean"),
    Column("first", "first ten"),
    Column("rest", "rest"),
    Column("p99_rest", "p99 of rest"),
    Column("slowest_job", "slowest job"),
    Column("converged_after", "conv.", digits=0),
    Column("loss_percent", "loss %", digits=2),
)
LEGEND = (
    "ratios to each job alone, median (least..greatest) over the runs; mean: over all "
    "iterations, mean of the jobs; rest: after the tenth; p99: of the worst job; slowest job: "
    "its mean; conv.: iterations until all jobs are within 5 % of alone at once"
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Scenarios, flows, variants, iterations."""
    parser.add_argument(
        "--scenarios",
        type=options.names("--scenarios", scenario.builtins()),
        default=SCENARIOS,
        metavar="NAME,NAME,...",
        help=f"(default: {','.join(SCENARIOS)})",
    )
    options.add_flows(parser, FLOWS)
    options.add_variants(parser, VARIANTS)
    options.add_iterations(parser)


def run(args: argparse.Namespace, context: Context) -> Record:
    """Measure the table."""
    wanted = {f"{name}-{flows}": (name, flows) for flows in args.flows for name in args.scenarios}
    groups = [
        campaign.Group(
            key,
            override.overridden(
                scenario.load(scenario.find(name)),
                {"flows": flows, "iterations": args.iterations, "alone": args.alone},
            ),
            args.variants,
        )
        for key, (name, flows) in wanted.items()
    ]
    measured = campaign.run(groups, context)
    if context.out:
        campaign.keep(measured, context.out)
    rows: list[dict[str, Cell]] = []
    verdicts = []
    for key, (name, flows) in wanted.items():
        cells = measured.cells(key)
        here = goals.judge(name, flows, cells, key)
        verdicts += here
        rows += [
            {
                "scenario": name,
                "flows": flows,
                "variant": variant,
                **cell,
                "goals": goals.short(here) if variant == goals.SUBJECT else "",
            }
            for variant, cell in cells.items()
        ]
    return Record(
        benchmark="mltcp",
        title="jobs on one bottleneck: iteration time / alone",
        parameters={
            "scenarios": list(args.scenarios),
            "flows": list(args.flows),
            "variants": list(args.variants),
            "iterations": args.iterations,
            "alone": args.alone,
            "runs": context.runs,
        },
        columns=[
            Column("scenario", "scenario"),
            Column("flows", "flows", digits=0),
            Column("variant", "variant"),
            *FIGURES,
            Column("goals", "goals"),
        ],
        rows=rows,
        goals=verdicts,
        notes=[LEGEND, *measured.notes],
        failures=measured.failures,
    )


def draw(record: Record, out: Path) -> Sequence[Path]:
    """Mean over all iterations of every variant, a panel per scenario and number of flows."""
    return [
        bars.draw(
            record,
            out / "mltcp.png",
            panel=("scenario", "flows"),
            bar="variant",
            figure="mean",
            label="mean iteration time / alone",
        )
    ]
