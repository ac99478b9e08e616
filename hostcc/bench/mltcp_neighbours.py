"""Jobs beside traffic that is no job's: what it gets, and what the jobs lose.

The neighbour is a bulk cubic transfer or a constant UDP stream.  Each figure under hostcc is
held against the same with the jobs on cubic: the neighbour has to keep its share.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

from hostcc.bench import bars, campaign, goals, options
from hostcc.bench.context import Context
from hostcc.bench.record import Cell, Column, Record, Spread, Verdict, number
from hostcc.lab import override, scenario

SCENARIOS = ("with-bulk", "with-udp")
FLOWS = (1, 8)
VARIANTS = (goals.SUBJECT, goals.REFERENCE)
KEEPS = 0.95
"""Part of its throughput beside cubic that a neighbour has to keep."""
JOBS_LOSE = 1.02
"""Times cubic's iteration time that the jobs may take."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Scenarios, flows, variants, iterations."""
    with_background = [
        name for name in scenario.builtins() if scenario.load(scenario.find(name)).background
    ]
    parser.add_argument(
        "--scenarios",
        type=options.names("--scenarios", with_background),
        default=SCENARIOS,
        metavar="NAME,NAME,...",
        help=f"(default: {','.join(SCENARIOS)})",
    )
    options.add_flows(parser, FLOWS)
    options.add_variants(parser, VARIANTS)
    options.add_iterations(parser)


def run(args: argparse.Namespace, context: Context) -> Record:
    """Measure the table."""
    wanted = {f"{name}-{flows}": (name, flows) for name in args.scenarios for flows in args.flows}
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
    verdicts: list[Verdict] = []
    for key, (name, flows) in wanted.items():
        cells = measured.cells(key)
        here = judge(key, cells)
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
        benchmark="mltcp-neighbours",
        title="jobs beside other traffic: iteration time / alone, the neighbour's throughput",
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
            Column("variant", "jobs on"),
            Column("mean", "mean"),
            Column("rest", "rest"),
            Column("p99_rest", "p99 of rest"),
            Column("loss_percent", "loss %", digits=2),
            Column("background_mbit", "neighbour Mbit/s", digits=1),
            Column("goals", "goals"),
        ],
        rows=rows,
        goals=verdicts,
        notes=[
            "the neighbour's throughput is on the wire, at its receiver, while the jobs run",
            *measured.notes,
        ],
        failures=measured.failures,
    )


def judge(key: str, cells: Mapping[str, Mapping[str, Spread]]) -> list[Verdict]:
    """Hold hostcc against cubic; empty when one of them is missing."""
    if goals.SUBJECT not in cells or goals.REFERENCE not in cells:
        return []
    own, reference = cells[goals.SUBJECT], cells[goals.REFERENCE]

    def relative(figure: str) -> list[float]:
        other = number(reference[figure].median)
        return [number(value) / other if other else 0.0 for value in own[figure].values]

    return [
        goals.verdict(
            key,
            f"neighbour keeps {100 * KEEPS:g} % of its throughput beside cubic",
            relative("background_mbit"),
            at_least=KEEPS,
        ),
        goals.verdict(
            key, f"jobs' mean <= {JOBS_LOSE:g} of cubic's", relative("mean"), at_most=JOBS_LOSE
        ),
    ]


def draw(record: Record, out: Path) -> Sequence[Path]:
    """Mean over all iterations, a panel per scenario."""
    return [
        bars.draw(
            record,
            out / "mltcp-neighbours.png",
            panel=("scenario", "flows"),
            bar="variant",
            figure="mean",
            label="mean iteration time / alone",
        )
    ]
