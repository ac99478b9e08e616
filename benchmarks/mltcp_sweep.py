"""hostcc beside cubic over link rates, buffers, round-trip times, jitter and arrivals."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks import bars, campaign, compared, goals, mltcp, options, sweep
from benchmarks.context import Context
from benchmarks.record import Cell, Column, Record, Spread, Verdict, number
from hostcc.lab import override, scenario

SCENARIOS = ("two-jobs", "three-jobs")
FLOWS = (8,)
VARIANTS = (goals.SUBJECT, goals.REFERENCE)
FACTORS = ("none", "rate", "buffer", "rtt", "jitter", "arrivals")
QUICK_ITERATIONS = 20


def add_options(parser: argparse.ArgumentParser) -> None:
    """Scenarios, factors, flows, variants, iterations, --quick."""
    compared.add_options(parser, SCENARIOS, FLOWS, VARIANTS)
    parser.add_argument(
        "--factors",
        type=options.names("--factors", FACTORS),
        default=FACTORS,
        metavar="NAME,NAME,...",
        help=f"factors to vary; none: the unchanged scenario (default: {','.join(FACTORS)})",
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help=f"extremes only, {QUICK_ITERATIONS} iterations, one run, the first scenario",
    )


def run(args: argparse.Namespace, context: Context) -> Record:
    """Measure the table."""
    names, iterations = args.scenarios, args.iterations
    if args.quick:
        names, iterations = names[:1], min(iterations, QUICK_ITERATIONS)
        context = replace(context, runs=1)
    settings: dict[str, dict[str, Cell]] = {}
    groups = []
    for name in names:
        for flows in args.flows:
            base = override.overridden(
                scenario.load(scenario.find(name)),
                {"flows": flows, "iterations": iterations, "alone": args.alone},
            )
            for point in sweep.points(base):
                if point.factor not in args.factors or (args.quick and not point.extreme):
                    continue
                key = f"{name}-{flows}-{point.key}"
                settings[key] = {
                    "scenario": name,
                    "flows": flows,
                    "factor": point.factor,
                    "value": point.value,
                }
                groups.append(campaign.Group(key, point.apply(base), args.variants))
    measured = campaign.run(groups, context)
    if context.out:
        campaign.keep(measured, context.out)
    rows: list[dict[str, Cell]] = []
    verdicts = []
    for key, setting in settings.items():
        cells = measured.cells(key)
        verdict = no_worse(key, cells)
        verdicts += [verdict] if verdict else []
        for variant, cell in cells.items():
            worse = "worse than cubic" if verdict and not verdict.met else ""
            row: dict[str, Cell] = {**setting, "variant": variant, **cell}
            rows.append({**row, "flag": worse if variant == goals.SUBJECT else ""})
    return Record(
        benchmark="mltcp-sweep",
        title="one factor at a time: iteration time / alone",
        parameters={
            "scenarios": list(names),
            "factors": list(args.factors),
            "flows": list(args.flows),
            "variants": list(args.variants),
            "iterations": iterations,
            "alone": args.alone,
            "runs": context.runs,
            "quick": args.quick,
        },
        columns=[
            Column("scenario", "scenario"),
            Column("flows", "flows", digits=0),
            Column("factor", "factor"),
            Column("value", "value"),
            Column("variant", "variant"),
            *mltcp.FIGURES,
            Column("flag", ""),
        ],
        rows=rows,
        goals=verdicts,
        notes=[mltcp.LEGEND, *measured.notes],
        failures=measured.failures,
    )


def no_worse(key: str, cells: Mapping[str, Mapping[str, Spread]]) -> Verdict | None:
    """Whether hostcc's mean is no worse than cubic's; None when one of them is missing."""
    if goals.SUBJECT not in cells or goals.REFERENCE not in cells:
        return None
    reference = number(cells[goals.REFERENCE]["mean"].median)
    ratios = [number(value) / reference for value in cells[goals.SUBJECT]["mean"].values]
    return goals.verdict(key, "mean no worse than cubic's", ratios, at_most=1 + goals.RESOLUTION)


def draw(record: Record, out: Path) -> Sequence[Path]:
    """Mean over all iterations, a panel per setting."""
    return [
        bars.draw(
            record,
            out / "mltcp-sweep.png",
            panel=("scenario", "factor", "value"),
            bar="variant",
            figure="mean",
            label="mean iteration time / alone",
        )
    ]
