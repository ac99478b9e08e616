"""The benchmarks by name.  A new one is a module of this package and a line here.

A module has `add_options(parser)`, `run(args, context) -> Record`, and may have
`draw(record, out) -> [path, ...]` for plots.
"""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path
from typing import Protocol, cast

from hostcc.bench.context import Context
from hostcc.bench.record import Record

BENCHMARKS: dict[str, tuple[str, str]] = {
    "mltcp": ("mltcp", "iteration times of jobs that share a bottleneck, against the goals"),
    "mltcp-sweep": ("mltcp_sweep", "the same over link rates, buffers, RTTs, jitter, arrivals"),
    "mltcp-neighbours": ("mltcp_neighbours", "jobs beside traffic that is no job's"),
    "mltcp-toggle": ("mltcp_toggle", "`unfair off` and `unfair mltcp` in mid-run"),
    "mltcp-kill": ("mltcp_kill", "kill -9 of the agents in mid-run"),
    "ack-cost": ("ack_cost", "nanoseconds per ACK of each congestion control"),
    "agent-cost": ("agent_cost", "the agent's CPU and memory, idle and with open flows"),
}
"""Name on the command line -> module, what it measures."""


class Benchmark(Protocol):
    """What a benchmark's module provides."""

    @staticmethod
    def add_options(parser: argparse.ArgumentParser) -> None:
        """Options of its own."""

    @staticmethod
    def run(args: argparse.Namespace, context: Context) -> Record:
        """Measure; raises HostccError."""


def load(name: str) -> Benchmark:
    """The module of a benchmark."""
    return cast("Benchmark", importlib.import_module(f"hostcc.bench.{BENCHMARKS[name][0]}"))


def draw(benchmark: Benchmark, record: Record, out: Path) -> list[Path]:
    """Plots of a record, where its benchmark makes any."""
    plot = getattr(benchmark, "draw", None)
    return [] if plot is None else list(plot(record, out))
