"""Jobs that the congestion control cannot reliably help: no slower than under cubic."""

from __future__ import annotations

import argparse

from benchmarks import compared, goals, mltcp
from benchmarks.context import Context
from benchmarks.record import Column, Record

SCENARIOS = ("rings-incompatible", "ddp", "ddp-buckets", "ddp-overlap", "pipelines")
FLOWS = (1, 2, 4, 8)
VARIANTS = ("hostcc", "cubic")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Scenarios, flows, variants, iterations."""
    compared.add_options(parser, SCENARIOS, FLOWS, VARIANTS)


def run(args: argparse.Namespace, context: Context) -> Record:
    """Measure the table."""
    return compared.measure(
        args,
        context,
        goals.judge,
        benchmark="mltcp-harmless",
        title="rings, DistributedDataParallel and pipelines: iteration time / alone",
        columns=[Column("variant", "variant"), *mltcp.FIGURES],
        notes=[mltcp.LEGEND],
    )


draw = mltcp.draw
