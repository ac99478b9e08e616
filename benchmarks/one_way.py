"""Whether a sender can tell the queue that it fills from the one its acknowledgements wait in.

Real TCP over a bottleneck in either direction.  The sender knows its round trips and its peer's
time stamps; the referee has seen each segment at both hosts.  Details: docs/internals/mltcp.md.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from benchmarks import goals, options
from benchmarks.context import Context
from benchmarks.headings import Heading, cells, columns
from benchmarks.one_way_delay import Floats, queues, true_delays
from benchmarks.one_way_stage import RATE_MBIT, Burst, Stage
from benchmarks.record import Cell, Column, Record, Verdict
from hostcc.errors import HostccError

LEFT, RIGHT, OTHER_LEFT, OTHER_RIGHT = range(4)
ON_S, OFF_S = 0.088, 0.132
TRICKLE = Burst(pace_bytes=RATE_MBIT * 10**6 // 8 // 10)
FULL, RING = Burst(), Burst(ON_S, OFF_S)
LATER = Burst(ON_S, OFF_S, first_s=ON_S / 2)
CASES: Mapping[str, Sequence[tuple[int, int, Burst]]] = {
    "there": [(LEFT, RIGHT, FULL)],
    "back": [(LEFT, RIGHT, TRICKLE), (OTHER_RIGHT, OTHER_LEFT, FULL)],
    "both": [(LEFT, RIGHT, FULL), (OTHER_RIGHT, OTHER_LEFT, FULL)],
    "rings": [
        (LEFT, RIGHT, RING),
        (RIGHT, LEFT, RING),
        (OTHER_LEFT, OTHER_RIGHT, LATER),
        (OTHER_RIGHT, OTHER_LEFT, LATER),
    ],
}
"""Name -> (sender, receiver, how it sends); the first connection is the one that is looked at."""
MOST_WRONG_S = 0.001
"""What the time stamps may be wrong by: one tick."""


@dataclass(frozen=True)
class Figures:
    """One run of a case; means over the ticks of the peer's clock."""

    ticks: Annotated[int, Heading("ticks", 0)]
    round_trip_s: Annotated[float, Heading("queue by round trip ms", 2, 1e3)]
    told_s: Annotated[float, Heading("by time stamps ms", 2, 1e3)]
    true_s: Annotated[float, Heading("true ms", 2, 1e3)]
    """What the connection's data waited."""
    wrong_p50_s: Annotated[float, Heading("wrong by, median ms", 2, 1e3)]
    """Of what the time stamps tell."""
    wrong_p95_s: Annotated[float, Heading("p95 ms", 2, 1e3)]
    round_trip_wrong_p50_s: Annotated[float, Heading("round trip wrong by, median ms", 2, 1e3)]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Cases and their length."""
    parser.add_argument(
        "--cases", type=options.names("--cases", tuple(CASES)), default=tuple(CASES),
        metavar="NAME,NAME,...", help=f"of {', '.join(CASES)} (default: all)",
    )  # fmt: skip
    parser.add_argument(
        "--seconds", type=options.fraction("--seconds", 0.5, 60.0), default=4.0, metavar="S",
        help="that each case is watched (default: 4)",
    )  # fmt: skip


def run(args: argparse.Namespace, context: Context) -> Record:
    """Measure the table."""
    found: dict[str, list[Figures]] = {}
    failures: list[str] = []
    cases = [(number, name) for number in range(1, context.runs + 1) for name in args.cases]
    with Stage() as stage:
        for done, (number, name) in enumerate(cases):
            context.tell(name, done, len(cases))
            try:
                figures = measure(stage, name, args.seconds)
            except (HostccError, OSError) as error:
                failures.append(f"{name}, run {number}: {error}")
            else:
                found.setdefault(name, []).append(figures)
    rows: list[dict[str, Cell]] = [{"case": name, **cells(runs)} for name, runs in found.items()]
    return Record(
        benchmark="one-way",
        title="queueing delay of a connection's data, by round trips and by time stamps",
        parameters={"cases": list(args.cases), "seconds": args.seconds, "runs": context.runs},
        columns=[Column("case", "case"), *columns(Figures)],
        rows=rows,
        goals=[_goal(name, runs) for name, runs in found.items()],
        failures=failures,
    )


def measure(stage: Stage, name: str, seconds: float) -> Figures:
    """One run of a case.  Raises HostccError when nothing can be told."""
    (sender, receiver, first), *others = CASES[name]
    with stage.capture(sender, receiver) as (here, there):
        try:
            source, target = stage.connect(sender, receiver, first)
            for one in others:
                stage.connect(*one)
            time.sleep(seconds)
        finally:
            stage.end()  # nothing may be on its way when the captures end
    sent = here.of(source, target, leaving=True)
    arrived = there.of(source, target, leaving=False)
    told, data = queues(sent, here.of(target, source, leaving=False))
    under_way = true_delays(sent, arrived)
    if not len(told.at_s) or np.isnan(under_way).all():
        raise HostccError("too few acknowledgements were seen")
    true = (under_way - np.nanmin(under_way))[data]
    return _figures(told.round_trip_s, told.there_s, true)


def _figures(round_trip_s: Floats, told_s: Floats, true_s: Floats) -> Figures:
    known = ~np.isnan(true_s)
    wrong = np.abs(told_s - true_s)[known]
    return Figures(
        int(np.count_nonzero(known)),
        float(round_trip_s[known].mean()),
        float(told_s[known].mean()),
        float(true_s[known].mean()),
        float(np.median(wrong)),
        float(np.quantile(wrong, 0.95)),
        float(np.median(np.abs(round_trip_s - true_s)[known])),
    )


def _goal(name: str, runs: Sequence[Figures]) -> Verdict:
    words = f"time stamps wrong by at most {MOST_WRONG_S * 1e3:g} ms in the median"
    return goals.verdict(name, words, [one.wrong_p50_s for one in runs], at_most=MOST_WRONG_S)
