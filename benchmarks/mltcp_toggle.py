"""`unfair off` and `unfair mltcp` on live connections in mid-run, beside jobs on cubic.

The run has three equal parts: unfairness on, off, on again.  A second after each switch the
jobs are made to collide (benchmarks.collide): interleaved jobs would stay interleaved under any
congestion control.  A part begins there and ends at the next switch; its iterations are those
that begin and end in it; "settled" leaves out the first ten.  Under cubic nothing is switched,
and the jobs collide in the same way: its parts are the curves that `off` has to restore.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping

import msgspec

from benchmarks import campaign, goals, options, phases
from benchmarks.context import Context
from benchmarks.record import Cell, Column, Record, Spread, Verdict, number, spread
from hostcc.errors import InputError
from hostcc.lab import override, scenario
from hostcc.lab.results import Results
from hostcc.lab.scenario import ActionSpec, Scenario

SETTLED_AFTER = 10
PARTS = ("mltcp", "off", "mltcp again")
COLLIDE = (sys.executable, "-m", "benchmarks.collide")
MARK = ("true",)
ACTIONS_PER_SWITCH = 3
PAUSE_ITERATIONS = 4
"""From a switch to the collision; about a second, within which a switch takes effect."""
LIKE_CUBIC = 0.1
"""How near the settled mean under `off` has to come to cubic's, as a part of it."""
GAIN_BACK = 1.05
"""The settled mean once unfairness is on again."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Scenario, flows, variants, iterations."""
    parser.add_argument(
        "--scenario", default="two-jobs", metavar="NAME", help="(default: %(default)s)"
    )
    options.add_flows(parser, (8,))
    options.add_variants(parser, (goals.SUBJECT, goals.REFERENCE))
    options.add_iterations(parser, default=120)


def run(args: argparse.Namespace, context: Context) -> Record:
    """Measure the table."""
    wanted = {f"{args.scenario}-{flows}-toggled": flows for flows in args.flows}
    groups = [
        campaign.Group(
            key,
            toggled(
                override.overridden(
                    scenario.load(scenario.find(args.scenario)),
                    {"flows": flows, "iterations": args.iterations, "alone": args.alone},
                )
            ),
            args.variants,
        )
        for key, flows in wanted.items()
    ]
    measured = campaign.run(groups, context)
    if context.out:
        campaign.keep(measured, context.out)
    rows: list[dict[str, Cell]] = []
    verdicts: list[Verdict] = []
    for key, flows in wanted.items():
        results = measured.group(key)
        if results is None:
            continue
        found = parts_of(results)
        verdicts += judge(key, found)
        rows += [
            {
                "flows": flows,
                "variant": variant,
                "part": part,
                "mean": figures.mean,
                "settled": figures.settled,
            }
            for variant, parts in found.items()
            for part, figures in parts.items()
        ]
    return Record(
        benchmark="mltcp-toggle",
        title=f"{args.scenario}: unfairness switched in mid-run, iteration time / alone",
        parameters={
            "scenario": args.scenario,
            "flows": list(args.flows),
            "variants": list(args.variants),
            "iterations": args.iterations,
            "alone": args.alone,
            "runs": context.runs,
        },
        columns=[
            Column("flows", "flows", digits=0),
            Column("variant", "variant"),
            Column("part", "part of the run"),
            Column("mean", "mean"),
            Column("settled", "settled"),
        ],
        rows=rows,
        goals=verdicts,
        notes=[
            f"settled: without the first {SETTLED_AFTER} iterations of each part",
            *measured.notes,
        ],
        failures=measured.failures,
    )


def toggled(base: Scenario) -> Scenario:
    """The scenario with the two switches at a third and two thirds of its iterations."""
    if base.iterations < len(PARTS):
        raise InputError(f"--iterations: expected at least {len(PARTS)}, got {base.iterations}")
    third = max(1, base.iterations // 3)
    pause = min(PAUSE_ITERATIONS, max(1, third // 3))
    return msgspec.structs.replace(
        base,
        action=(
            *_switch("unfair off", third, pause),
            *_switch("unfair mltcp", 2 * third, pause),
        ),
    )


def _switch(order: str, iteration: int, pause: int) -> tuple[ActionSpec, ...]:
    """Switch; some iterations later collide, and mark the end of that."""
    return (
        ActionSpec(run=order, at_iteration=iteration),
        ActionSpec(run=COLLIDE, at_iteration=iteration + pause),
        ActionSpec(run=MARK, at_iteration=iteration + pause),
    )


class PartFigures(msgspec.Struct, frozen=True):
    """One part of the run."""

    mean: Spread
    settled: Spread


def parts_of(results: Results) -> dict[str, dict[str, PartFigures]]:
    """variant -> part -> figures over the runs."""
    table: dict[str, dict[str, PartFigures]] = {}
    for variant in results.variants:
        rows: dict[str, tuple[list[float | None], list[float | None]]] = {}
        for entry in variant.runs:
            moments = [event.at_s for event in entry.events]
            stretches = phases.cut(
                PARTS, ends_s=moments[::ACTIONS_PER_SWITCH], begins_s=moments[2::ACTIONS_PER_SWITCH]
            )
            for stretch in stretches:
                means, settled = rows.setdefault(stretch.name, ([], []))
                means.append(phases.mean(phases.ratios(entry, stretch)))
                settled.append(phases.mean(phases.ratios(entry, stretch, SETTLED_AFTER)))
        table[variant.name] = {
            part: PartFigures(spread(means), spread(settled))
            for part, (means, settled) in rows.items()
        }
    return table


def judge(key: str, found: Mapping[str, Mapping[str, PartFigures]]) -> list[Verdict]:
    """Hold the parts against each other; empty without both variants."""
    own, reference = found.get(goals.SUBJECT), found.get(goals.REFERENCE)
    if not own or not reference:
        return []
    cubic = number(reference["off"].settled.median)
    return [
        goals.verdict(
            key,
            f"off: settled mean within {100 * LIKE_CUBIC:g} % of cubic's",
            [number(value) / cubic for value in own["off"].settled.values],
            at_least=1 - LIKE_CUBIC,
            at_most=1 + LIKE_CUBIC,
        ),
        goals.verdict(
            key,
            f"mltcp again: settled mean <= {GAIN_BACK:g}",
            own["mltcp again"].settled.values,
            at_most=GAIN_BACK,
        ),
    ]
