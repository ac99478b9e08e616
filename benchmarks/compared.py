"""Lab scenarios, each with several numbers of flows and under several variants, as one table."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence

from benchmarks import campaign, goals, options
from benchmarks.context import Context
from benchmarks.record import Cell, Column, Record, Spread, Verdict
from hostcc.lab import override, scenario

Judge = Callable[[str, int, Mapping[str, Mapping[str, Spread]], str], list[Verdict]]
"""(scenario, flows, variant -> figure -> spread, key) -> the verdicts."""


def add_options(
    parser: argparse.ArgumentParser,
    scenarios: Sequence[str],
    flows: tuple[int, ...],
    variants: tuple[str, ...],
    known: Sequence[str] = (),
) -> None:
    """Scenarios (of `known`; empty: all), flows, variants, iterations; with these defaults."""
    parser.add_argument(
        "--scenarios",
        type=options.names("--scenarios", known or scenario.builtins()),
        default=scenarios,
        metavar="NAME,NAME,...",
        help=f"(default: {','.join(scenarios)})",
    )
    options.add_flows(parser, flows)
    options.add_variants(parser, variants)
    options.add_iterations(parser)


def measure(
    args: argparse.Namespace,
    context: Context,
    judge: Judge,
    *,
    benchmark: str,
    title: str,
    columns: Sequence[Column],
    notes: Sequence[str],
) -> Record:
    """A row per scenario, number of flows and variant; `columns` are of the figures."""
    found = {name: scenario.load(scenario.find(name)) for name in args.scenarios}
    # How many connections a command has is its own affair.
    wanted = {
        f"{name}-{flows}": (name, flows)
        for number, flows in enumerate(args.flows)
        for name in args.scenarios
        if not number or not all(job.command for job in found[name].job)
    }
    groups = [
        campaign.Group(
            key,
            override.overridden(
                found[name],
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
    verdicts: list[Verdict] = []
    for key, (name, flows) in wanted.items():
        cells = measured.cells(key)
        here = judge(name, flows, cells, key)
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
        benchmark=benchmark,
        title=title,
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
            *columns,
            Column("goals", "goals"),
        ],
        rows=rows,
        goals=verdicts,
        notes=[*notes, *measured.notes],
        failures=measured.failures,
    )
