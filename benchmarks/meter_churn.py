"""Growth of the byte meter while connections come and go, for minutes or for an hour.

A process opens, uses and closes connections at a steady rate; all of them are metered, by the
programs of their job and by those of the root.  A sample every few seconds is kept on disk, so
that an interrupted run has its results until then.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import msgspec

from benchmarks import options
from benchmarks.context import Context
from benchmarks.headings import Heading, columns
from benchmarks.meter_stage import Stage
from benchmarks.record import Cell, Column, Record, Verdict, spread
from hostcc.bpf.loader.errors import BpfError
from hostcc.lab.errors import LabError

SAMPLE_S = 5.0
PARTS = 12
"""The table has so many lines."""
GROWTH_BYTES = 1e6
"""From the first to the last third; less is the allocator's noise."""
GROWTH_CPU = 0.2
"""The same for CPU, points of a per cent of one CPU."""
FILE = "meter-churn.jsonl"


class Sample(msgspec.Struct, frozen=True):
    """The metering process since the sample before."""

    seconds: float
    """Since the begin."""
    connections: Annotated[int, Heading("connections", 0)]
    """So many in all."""
    cpu_percent: Annotated[float, Heading("agent CPU %", 2)]
    """Of one CPU."""
    resident_bytes: Annotated[int, Heading("resident MB", 2, 1e-6)]
    map_bytes: Annotated[int, Heading("maps MB", 2, 1e-6)]
    """Of all BPF maps that it holds."""
    open_files: Annotated[int, Heading("open files", 0)]
    rows: Annotated[int, Heading("destinations", 0)]
    lost_packets: Annotated[int, Heading("not counted", 0)]


GROWING = ("cpu_percent", "resident_bytes", "map_bytes", "open_files", "rows")


def add_options(parser: argparse.ArgumentParser) -> None:
    """How long, how fast."""
    parser.add_argument(
        "--minutes", type=options.fraction("--minutes", 0.05, 600), default=60.0, metavar="M",
        help="(default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--rate", type=options.whole("--rate", 1, 5000), default=1000, metavar="N",
        help="connections a second (default: %(default)s)",
    )  # fmt: skip


def run(args: argparse.Namespace, context: Context) -> Record:
    """Measure the table; with --report, from the samples of a run before."""
    path = None if context.out is None else context.out / FILE
    failures: list[str] = []
    samples: list[Sample] = []
    if context.report_only:
        samples = _kept(path)
    else:
        try:
            measure(args.minutes * 60, args.rate, context, samples, path)
        except (LabError, BpfError, OSError) as error:
            failures.append(f"after {len(samples)} samples: {error}")
    if not samples:
        failures.append("no samples")
    return Record(
        benchmark="meter-churn",
        title="the byte meter while connections come and go",
        parameters={"minutes": args.minutes, "rate": args.rate},
        columns=[
            Column("minutes", "until minute", digits=1),
            *columns(Sample),
        ],
        rows=[_row(part) for part in _parts(samples)],
        goals=judge(samples) if samples else [],
        notes=["each line is the median of its part of the run"],
        failures=failures,
    )


def measure(
    seconds: float, rate: int, context: Context, samples: list[Sample], path: Path | None
) -> None:
    """Append to `samples`, and to the file `path`; raises LabError or OSError."""
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")
    with Stage(1) as stage:
        stage.churn(rate)
        stage.order("on")
        stage.order("root")
        start = last = time.monotonic()
        used = stage.agent_cpu_s()
        while last - start < seconds:
            context.tell("churn", last - start, seconds)
            time.sleep(min(SAMPLE_S, max(0.1, seconds - (last - start))))
            now, cpu = time.monotonic(), stage.agent_cpu_s()
            percent = 100 * (cpu - used) / (now - last)
            connections, report = stage.connections(), stage.report()
            # What asking costs is not the meter's.
            last, used = time.monotonic(), stage.agent_cpu_s()
            samples.append(
                Sample(
                    now - start, connections, percent, report.resident_bytes, report.map_bytes,
                    report.open_files, report.rows, report.lost_packets,
                )
            )  # fmt: skip
            if path is not None:
                with path.open("ab") as file:
                    file.write(msgspec.json.encode(samples[-1]) + b"\n")


def _kept(path: Path | None) -> list[Sample]:
    if path is None or not path.exists():
        return []
    return [msgspec.json.decode(line, type=Sample) for line in path.read_bytes().splitlines()]


def growth(samples: Sequence[Sample], field: str) -> float:
    """Median of the last third less the median of the first third."""
    third = max(1, len(samples) // 3)
    values = [float(getattr(sample, field)) for sample in samples]
    return statistics.median(values[-third:]) - statistics.median(values[:third])


def judge(samples: Sequence[Sample]) -> list[Verdict]:
    """Nothing grows; at least one sample."""
    limits = {"cpu_percent": GROWTH_CPU, "resident_bytes": GROWTH_BYTES}
    found = []
    for field in GROWING:
        grown = growth(samples, field)
        met = grown <= limits.get(field, 0)
        goal = f"{field} grows by at most {limits.get(field, 0):g}"
        found.append(Verdict("churn", goal, spread([grown]), int(met), met))
    return found


def _parts(samples: Sequence[Sample]) -> list[Sequence[Sample]]:
    count = min(PARTS, len(samples))
    edges = [len(samples) * part // count for part in range(count + 1)] if count else [0]
    return [samples[a:b] for a, b in itertools.pairwise(edges)]


def _row(part: Sequence[Sample]) -> dict[str, Cell]:
    row: dict[str, Cell] = {
        "minutes": part[-1].seconds / 60,
        "connections": part[-1].connections,
        "lost_packets": part[-1].lost_packets,
    }
    for field in GROWING:
        row[field] = statistics.median(getattr(sample, field) for sample in part)
    return row
