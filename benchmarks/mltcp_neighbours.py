"""Jobs beside other traffic: its throughput, and the loss of the jobs.

The neighbour is a bulk cubic transfer or a constant UDP stream.  Each figure under hostcc is
compared with that of jobs on cubic: the neighbour has to keep its share.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks import bars, compared, goals
from benchmarks.context import Context
from benchmarks.figures import Figures
from benchmarks.headings import columns
from benchmarks.record import Column, Record, Spread, Verdict, number
from hostcc.lab import scenario

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
    compared.add_options(parser, SCENARIOS, FLOWS, VARIANTS, with_background)


def run(args: argparse.Namespace, context: Context) -> Record:
    """Measure the table."""
    return compared.measure(
        args,
        context,
        lambda _name, _flows, cells, key: judge(key, cells),
        benchmark="mltcp-neighbours",
        title="jobs beside other traffic: iteration time / alone, the neighbour's throughput",
        columns=[
            Column("variant", "jobs on"),
            *columns(Figures, "mean", "rest", "p99_rest", "loss_percent", "background_mbit"),
        ],
        notes=["the neighbour's throughput is on the wire, at its receiver, while the jobs run"],
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
