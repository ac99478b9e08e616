"""Cost of the byte meter: per packet, in throughput, and in the agent.

One process on one CPU sends and receives 64 KiB over each of the flows in turn, over loopback,
the fastest path of any machine; both ends are metered, so every packet runs two programs.  The
meter is attached and detached in turn while the same connections go on, and throughput with and
without it is compared in pairs.  The metering process reads at the same time.  Details:
docs/internals/measure-bytes.md.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import time
from collections.abc import Sequence
from functools import partial
from typing import Annotated

import msgspec

from benchmarks import options
from benchmarks.cases import Identity, identity_of
from benchmarks.context import Context
from benchmarks.harness import Case, run_cases
from benchmarks.headings import Heading, cells, columns
from benchmarks.meter_stage import Stage
from benchmarks.record import Cell, Column, Record, Verdict, spread
from hostcc.bpf.loader import stats
from hostcc.bpf.loader.objects import object_path

MAX_JOBS, MAX_FLOWS = 500, 20_000
SETTLE_S = 0.02
STEADY_SLICES = 20
"""The metering process's CPU time is taken over so many times the length of a measurement."""
MB = 1e6
GOAL_RESIDENT_BYTES = 100 * MB


class Figures(msgspec.Struct, frozen=True):
    """One number of flows and jobs, in one run."""

    without_bps: Annotated[float, Heading("Gbit/s without", 2, 1e-9)]
    """Throughput, bits per second of payload; median over the pairs."""
    with_bps: Annotated[float, Heading("with", 2, 1e-9)]
    lost_percent: Annotated[float, Heading("lost %", 2)]
    """Median over the pairs of what was lost in each; below 0 is noise."""
    call_ns: Annotated[float, Heading("ns / packet", 0)]
    """A program's run, what measuring adds included."""
    floor_ns: Annotated[float, Heading("of which to be there", 0)]
    """A run that returns at once, measured likewise."""
    cpu_percent: Annotated[float, Heading("agent CPU %", 2)]
    """Of the metering process, while attached, of one CPU."""
    resident_bytes: Annotated[int, Heading("resident MB", 1, 1e-6)]
    rows: Annotated[int, Heading("destinations", 0)]
    lost_packets: Annotated[int, Heading("not counted", 0)]
    """Not counted because reading was late."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Flows, jobs, pairs."""
    parser.add_argument(
        "--flows",
        type=options.wholes("--flows", 1, MAX_FLOWS),
        default=(10, 1000, 10_000),
        metavar="N,N,...",
        help="connections in all (default: 10,1000,10000)",
    )
    parser.add_argument(
        "--jobs",
        type=options.wholes("--jobs", 1, MAX_JOBS),
        default=(1, 10, 100),
        metavar="N,N,...",
        help="jobs that share them (default: 1,10,100)",
    )
    parser.add_argument(
        "--pairs", type=options.whole("--pairs", 1, 100), default=20, metavar="N",
        help="measurements with and without, in turn (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--seconds", type=options.fraction("--seconds", 0.05, 60), default=0.2, metavar="S",
        help="length of each (default: %(default)s)",
    )  # fmt: skip


def run(args: argparse.Namespace, context: Context) -> Record:
    """Measure the table."""
    cases = [
        Case(
            (flows, jobs),
            f"cases/meter-{flows}-{jobs}-{number}",
            f"{flows} flows, {jobs} jobs, run {number}",
            partial(_identity, flows, jobs, args.pairs, args.seconds),
            partial(measure, flows, jobs, args.pairs, args.seconds),
        )
        for number in range(1, context.runs + 1)
        for flows, jobs in itertools.product(args.flows, args.jobs)
    ]
    measured = run_cases(context, Figures, cases)
    found = measured.results
    notes = ["both ends are metered; lost % is the median over two pairs each, below 0 is noise"]
    goals = [goal for case in found.items() for goal in _goals(*case)]
    return Record(
        benchmark="meter-cost",
        title="the byte meter's cost",
        parameters={
            "flows": list(args.flows), "jobs": list(args.jobs), "pairs": args.pairs,
            "seconds": args.seconds, "runs": context.runs,
        },
        columns=[
            Column("flows", "flows", digits=0),
            Column("jobs", "jobs", digits=0),
            *columns(Figures),
        ],
        rows=[_row(*case) for case in found.items()],
        goals=goals,
        notes=notes,
        failures=measured.failures,
    )  # fmt: skip


def _identity(flows: int, jobs: int, pairs: int, seconds: float) -> Identity:
    what = {"flows": flows, "jobs": jobs, "pairs": pairs, "seconds": seconds}
    return identity_of({**what, "meter": object_path("meter").read_bytes().hex()}, programs=False)


def measure(flows: int, jobs: int, pairs: int, seconds: float) -> Figures:
    """One case; raises LabError, BpfError or OSError."""
    with Stage(jobs) as stage:
        stage.open(flows)
        rates: dict[str, list[float]] = {"on": [], "off": []}
        for number in range(pairs):
            for word in ("on", "off") if number % 2 else ("off", "on"):
                stage.order(word)
                time.sleep(SETTLE_S)
                rates[word].append(stage.throughput(seconds))
        stage.order("on")
        stage.throughput(seconds)
        used, start = stage.agent_cpu_s(), time.monotonic()
        stage.throughput(STEADY_SLICES * seconds)
        used, span = stage.agent_cpu_s() - used, time.monotonic() - start
        with stats.enable():
            call_ns = _per_call(stage, seconds)
            stage.order("idle")
            floor_ns = _per_call(stage, seconds)
        last = stage.report()
    losses = losses_of(rates["on"], rates["off"])
    return Figures(
        statistics.median(rates["off"]), statistics.median(rates["on"]),
        statistics.median(losses), call_ns, floor_ns, 100 * used / span, last.resident_bytes,
        last.rows, last.lost_packets,
    )  # fmt: skip


def losses_of(on: Sequence[float], off: Sequence[float]) -> list[float]:
    """Per cent of throughput lost, one for every two pairs.

    Pairs are measured off-on, on-off: over two of them a drift of the machine cancels.  An odd
    one at the end counts by itself.
    """
    return [100 * (1 - sum(on[at : at + 2]) / sum(off[at : at + 2])) for at in range(0, len(on), 2)]


def _per_call(stage: Stage, seconds: float) -> float:
    first = stage.report()
    stage.throughput(seconds)
    last = stage.report()
    return (last.call_ns - first.call_ns) / max(1, last.calls - first.calls)


def _goals(case: tuple[int, int], runs: Sequence[Figures]) -> list[Verdict]:
    flows, jobs = case
    scope = f"{flows} flows, {jobs} jobs"
    most = 1.0 if flows <= 1000 else 5.0
    return [
        _below(scope, f"agent CPU below {most:g} %", [f.cpu_percent for f in runs], most),
        _below(scope, "resident below 100 MB", [f.resident_bytes for f in runs],
               GOAL_RESIDENT_BYTES),
    ]  # fmt: skip


def _below(scope: str, goal: str, values: Sequence[float], limit: float) -> Verdict:
    passing = sum(value < limit for value in values)
    return Verdict(scope, goal, spread(list(values)), passing, statistics.median(values) < limit)


def _row(case: tuple[int, int], runs: Sequence[Figures]) -> dict[str, Cell]:
    return {
        "flows": case[0],
        "jobs": case[1],
        **cells(runs),
    }
