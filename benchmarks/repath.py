"""Moving a live TCP flow between paths: errors, time of a move, cost of a packet.

A checksummed stream crosses a leaf-spine fabric at full rate while its agents move it from one
source port on the wire to the next; then the same stream runs with and without the programs in
turn.  Details: docs/internals/steering.md.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import time
from functools import partial
from typing import Annotated

import msgspec

from benchmarks import options
from benchmarks.cases import Identity, identity_of
from benchmarks.context import Context
from benchmarks.harness import Case, run_cases
from benchmarks.headings import Heading, cells, columns
from benchmarks.record import Cell, Column, Record, Verdict, spread
from benchmarks.repath_stage import RepathStage
from hostcc.bpf.loader import stats
from hostcc.bpf.loader.objects import object_path

FAMILIES = ("ipv4", "ipv6")
WIRE = range(20000, 20064)
"""Below the ephemeral ports, so that no stream begins with one of them."""
SETTLE_S = 0.2


class Figures(msgspec.Struct, frozen=True):
    """One run."""

    moves: Annotated[int, Heading("moves", 0)]
    broken: Annotated[int, Heading("errors", 0)]
    """0, or 1 when the stream did not arrive as it was sent."""
    p50_s: Annotated[float, Heading("p50 ms", 2, 1e3)]
    """From the decision to the first packet on the new path."""
    p99_s: Annotated[float, Heading("p99 ms", 2, 1e3)]
    gbytes: Annotated[float, Heading("GB sent", 1)]
    without_bps: Annotated[float, Heading("Gbit/s without", 2, 1e-9)]
    """Bits per second, headers included; median of the pairs."""
    with_bps: Annotated[float, Heading("with", 2, 1e-9)]
    lost_percent: Annotated[float, Heading("lost %", 2)]
    egress_ns: Annotated[float, Heading("ns / packet out", 0)]
    """A run of the sender's program for a packet that it rewrites, measuring included."""
    ingress_ns: Annotated[float, Heading("in", 0)]
    miss_ns: Annotated[float, Heading("not moved", 0)]
    """A run for a packet of a flow that is not moved."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Moves, pairs, families."""
    parser.add_argument(
        "--moves", type=options.whole("--moves", 1, 100_000), default=1000, metavar="N",
        help="moves of the stream (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--pairs", type=options.whole("--pairs", 1, 100), default=10, metavar="N",
        help="measurements of throughput with and without, in turn (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--families", type=options.names("--families", FAMILIES), default=FAMILIES,
        metavar="NAME,NAME", help="(default: ipv4,ipv6)",
    )  # fmt: skip


def run(args: argparse.Namespace, context: Context) -> Record:
    """Measure the table."""
    cases = [
        Case(
            family,
            f"cases/repath-{family}-{number}",
            f"{family}, run {number}",
            partial(_identity, args.moves, args.pairs),
            partial(measure, family == "ipv6", args.moves, args.pairs),
        )
        for number in range(1, context.runs + 1)
        for family in args.families
    ]
    measured = run_cases(context, Figures, cases)
    found = measured.results
    return Record(
        benchmark="repath",
        title="live TCP flows moved between paths",
        parameters={"moves": args.moves, "pairs": args.pairs, "runs": context.runs},
        columns=[
            Column("family", "family"),
            *columns(Figures),
        ],
        rows=[_row(family, runs) for family, runs in found.items()],
        goals=[
            Verdict(
                family, "no error", spread([one.broken for one in runs]),
                sum(not one.broken for one in runs), not any(one.broken for one in runs),
            )
            for family, runs in found.items()
        ],
        notes=["a packet here is what the device is handed, up to 64 kB; ns contain the timing"],
        failures=measured.failures,
    )  # fmt: skip


def _identity(moves: int, pairs: int) -> Identity:
    programs = object_path("steer").read_bytes().hex()
    return identity_of({"moves": moves, "pairs": pairs, "steer": programs}, programs=False)


def measure(v6: bool, moves: int, pairs: int) -> Figures:
    """One run; raises LabError, BpfError or OSError."""
    with RepathStage(4, v6) as stage:
        times: list[float] = []
        ports = itertools.cycle(WIRE)
        while len(times) < moves:
            port = next(ports)
            if stage.free(port):
                times.append(stage.move(port))
            else:
                stage.step(0.001)
        with stats.enable():
            egress_ns, ingress_ns = _per_call(stage, "h1", "h2")
            stage.agents["h1"].revert(stage.flow)
            miss_ns, _ = _per_call(stage, "h1", "h2")
        off, on = _throughput(stage, pairs)
        sent, whole = stage.finish()
    ordered = sorted(times)
    lost = [100 * (1 - with_it / without) for without, with_it in zip(off, on, strict=True)]
    return Figures(
        len(times), int(not whole), statistics.median(ordered),
        ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))], sent / 1e9,
        statistics.median(off), statistics.median(on), statistics.median(lost), egress_ns,
        ingress_ns, miss_ns,
    )  # fmt: skip


def _throughput(stage: RepathStage, pairs: int) -> tuple[list[float], list[float]]:
    """Bits per second without the programs, and with the stream being rewritten."""
    rates: dict[bool, list[float]] = {False: [], True: []}
    for number in range(pairs):
        for attached in (True, False) if number % 2 else (False, True):
            stage.detach()
            if attached:
                stage.attach()
                stage.move(WIRE[number % len(WIRE)])
            time.sleep(SETTLE_S)
            before, start = stage.received(), time.monotonic()
            time.sleep(SETTLE_S)
            passed = time.monotonic() - start
            rates[attached].append(8 * (stage.received() - before) / passed)
    return rates[False], rates[True]


def _per_call(stage: RepathStage, out: str, into: str) -> tuple[float, float]:
    """ns of a run of the egress program on one host, of the ingress program on the other."""
    rows = [_stats(stage, out, "steer_egress"), _stats(stage, into, "steer_ingress")]
    time.sleep(SETTLE_S)
    after = [_stats(stage, out, "steer_egress"), _stats(stage, into, "steer_ingress")]
    spans = [
        (new[1] - old[1]) / max(1, new[0] - old[0]) for old, new in zip(rows, after, strict=True)
    ]
    return spans[0], spans[1]


def _stats(stage: RepathStage, host: str, program: str) -> tuple[int, int]:
    rows = stage.kernels[host].program_stats()
    row = rows[rows["name"] == program][0]
    return int(row["run_cnt"]), int(row["run_time_ns"])


def _row(family: str, runs: list[Figures]) -> dict[str, Cell]:
    return {
        "family": family,
        **cells(runs),
    }
