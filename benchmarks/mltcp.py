"""The main table: jobs that start together on one bottleneck, hostcc beside the others."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from benchmarks import bars, compared, goals
from benchmarks.context import Context
from benchmarks.figures import Figures
from benchmarks.headings import columns
from benchmarks.record import Column, Record

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
FIGURES = columns(
    Figures, "mean", "first", "rest", "p99_rest", "slowest_job", "converged_after", "loss_percent"
)
LEGEND = (
    "ratios to each job alone, median (least..greatest) over the runs; mean: over all "
    "iterations, mean of the jobs; rest: after the tenth; p99: of the worst job; slowest job: "
    "its mean; conv.: iterations until all jobs are within 5 % of alone at once"
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Scenarios, flows, variants, iterations."""
    compared.add_options(parser, SCENARIOS, FLOWS, VARIANTS)


def run(args: argparse.Namespace, context: Context) -> Record:
    """Measure the table."""
    return compared.measure(
        args,
        context,
        goals.judge,
        benchmark="mltcp",
        title="jobs on one bottleneck: iteration time / alone",
        columns=[Column("variant", "variant"), *FIGURES],
        notes=[LEGEND],
    )


def draw(record: Record, out: Path) -> Sequence[Path]:
    """Mean over all iterations of every variant, a panel per scenario and number of flows."""
    return [
        bars.draw(
            record,
            out / f"{record.benchmark}.png",
            panel=("scenario", "flows"),
            bar="variant",
            figure="mean",
            label="mean iteration time / alone",
        )
    ]
