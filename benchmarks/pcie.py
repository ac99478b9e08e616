"""PCIe semaphores: their cost, the time of a hand-over, and the gain of the intensive job.

The shared link is emulated: a token bucket that both jobs' copies draw on, first come first
served (hostcc.pcie.exercise).  Everything else is real: processes, shared memory, futexes.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from benchmarks import options
from benchmarks.context import Context
from benchmarks.record import Cell, Column, Record, Verdict, spread
from hostcc.errors import HostccError
from hostcc.pcie import exercise
from hostcc.pcie.exercise import Cost, Sent, Spec, Turns
from hostcc.pcie.library import PCIE
from hostcc.pcie.semaphore import Semaphores, Settings
from hostcc.system.cc import BuildError, build

START_NS = 2_500_000_000
"""For both processes to be ready, on a busy machine, too."""
TURNS, HOLD_US = 3000, 200.0
"""Of each of two processes that wait for each other."""
RATE = 4e9
GRANULES = (1 << 17, 1 << 20, 1 << 23)
INTENSE_US, IDLE_US = 100, 30_000.0
KEPT, COST_NS, HANDOVER_US = 0.95, 200.0, 100.0
CRUX = "Crux (SIGCOMM 2024) orders PCIe use by semaphores and reports neither cost nor granularity"


def add_options(parser: argparse.ArgumentParser) -> None:
    """How long each pair of jobs runs."""
    parser.add_argument(
        "--seconds",
        type=options.fraction("--seconds", 0.5, 60),
        default=3.0,
        metavar="S",
        help="duration for each pair of jobs (default: %(default)s)",
    )


def run(args: argparse.Namespace, context: Context) -> Record:
    """Measure everything `context.runs` times."""
    try:
        build(PCIE)
        build(exercise.EXERCISE)
    except BuildError as error:
        raise HostccError(str(error)) from None
    figures: dict[tuple[str, str], list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="hostcc-pcie-", dir="/dev/shm") as folder:
        for number in range(context.runs):
            for what, values in (
                ("cost", cost(Path(folder))),
                ("hand-over", handovers(Path(folder))),
                ("wake-up alone", wakes(Path(folder))),
                *((f"messages of {size >> 10} KiB", pair(Path(folder), size, args.seconds))
                  for size in GRANULES),
            ):  # fmt: skip
                context.tell(what, number, context.runs)
                for name, value in values.items():
                    figures.setdefault((what, name), []).append(value)
    rows: list[dict[str, Cell]] = [
        {"what": what, "figure": name, "value": spread(values)}
        for (what, name), values in figures.items()
    ]
    return Record(
        benchmark="pcie",
        title="PCIe semaphores: cost, hand-over, and two jobs on one emulated link",
        parameters={"seconds": args.seconds, "runs": context.runs, "rate": RATE},
        columns=[
            Column("what", "what"),
            Column("figure", "figure"),
            Column("value", "value", digits=2),
        ],
        rows=rows,
        goals=judge(figures),
        notes=[
            "the link is a token bucket of 4 GB/s in shared memory, not hardware",
            "the intensive job sends 26 MB, computes 30 ms, and so on; the other only sends",
            CRUX,
        ],
    )


def judge(figures: dict[tuple[str, str], list[float]]) -> list[Verdict]:
    """The goals: cost, hand-over, what the intensive job keeps, that the other proceeds."""
    found = [
        _verdict("cost", "enter and leave below 200 ns", figures["cost", "enter and leave, ns"],
                 -COST_NS),
        _verdict("hand-over", "p99 below 100 us", figures["hand-over", "p99, us"], -HANDOVER_US),
    ]  # fmt: skip
    for what in dict.fromkeys(key[0] for key in figures if key[0].startswith("messages")):
        kept = figures[what, "intensive: part of its rate alone, with"]
        found.append(_verdict(what, "intensive job keeps 95 %", kept, KEPT))
        other = figures[what, "other: part of the link, with"]
        found.append(_verdict(what, "the other uses 10 % of the link", other, 0.1))
    return found


def _verdict(scope: str, goal: str, values: list[float], least: float) -> Verdict:
    """`least` below 0: the values have to stay below its amount."""
    good = [value <= -least if least < 0 else value >= least for value in values]
    measured = spread(values)
    median = measured.median or 0.0
    met = median <= -least if least < 0 else median >= least
    return Verdict(scope, goal, measured, sum(good), met)


def cost(folder: Path) -> dict[str, float]:
    """Nanoseconds with nobody else there."""
    path = folder / "cost"
    with Semaphores.create([("link", Settings())], path):
        found = msgspec.json.decode(
            exercise.answer(exercise.start("cost", Spec(str(path), level=3))), type=Cost
        )
    return {"enter and leave, ns": found.enter_leave, "boundary, ns": found.boundary}


def handovers(folder: Path) -> dict[str, float]:
    """Microseconds from one's leaving to the next one's turn, between two equal processes."""
    path = folder / "turns"
    with Semaphores.create([("link", Settings())], path):
        begin = time.monotonic_ns() + START_NS
        spec = Spec(str(path), level=1, before=1, turns=TURNS, hold_us=HOLD_US, start_ns=begin)
        both = [exercise.start("turns", spec) for _ in range(2)]
        found = [msgspec.json.decode(exercise.answer(one), type=Turns) for one in both]
    after = np.array([value for turns in found for value in turns.after if value]) / 1e3
    return {**percentiles(after), "turns that waited": float(len(after))}


def wakes(folder: Path) -> dict[str, float]:
    """The same of two processes that only wake each other: what no semaphore can be faster than."""
    path = folder / "bells"
    exercise.make_engine(path)
    begin = time.monotonic_ns() + START_NS
    both = [
        exercise.start("wakes", Spec("", engine=str(path), self=one, turns=TURNS, hold_us=HOLD_US,
                                     start_ns=begin))
        for one in range(2)
    ]  # fmt: skip
    found = [msgspec.json.decode(exercise.answer(one), type=Turns) for one in both]
    return percentiles(np.array([x for turns in found for x in turns.after if x]) / 1e3)


def percentiles(values: NDArray[np.float64]) -> dict[str, float]:
    """Microseconds."""
    return {
        "p50, us": float(np.percentile(values, 50)),
        "p99, us": float(np.percentile(values, 99)),
    }


def pair(folder: Path, message: int, seconds: float) -> dict[str, float]:
    """An intensive job and another on one link: alone, without and with semaphores."""
    path, engine = folder / "pair", folder / "engine"
    exercise.make_engine(engine)
    burst = int(RATE * INTENSE_US * 1e-6 * 64)
    messages = max(1, burst // message)

    def jobs(*levels: int, gated: bool) -> list[float]:
        begin = time.monotonic_ns() + START_NS
        started = [
            exercise.start(
                "job",
                Spec(
                    str(path) if gated else "", level=level, engine=str(engine), rate=RATE,
                    message=message, messages=messages, compute_us=0.0 if level else IDLE_US,
                    start_ns=begin, seconds=seconds,
                ),
            )
            for level in levels
        ]  # fmt: skip
        sent = [msgspec.json.decode(exercise.answer(one), type=Sent) for one in started]
        return [one.bytes / one.seconds for one in sent]

    with Semaphores.create([("link", Settings(granule=message))], path):
        (alone,) = jobs(0, gated=False)
        without = jobs(0, 3, gated=False)
        gated = jobs(0, 3, gated=True)
    return {
        "intensive alone: part of the link": alone / RATE,
        "intensive: part of its rate alone, without": without[0] / alone,
        "intensive: part of its rate alone, with": gated[0] / alone,
        "other: part of the link, without": without[1] / RATE,
        "other: part of the link, with": gated[1] / RATE,
    }
