"""Readers of the control socket who take all they can get: how long does root wait?

One agent with all parts on.  Root asks for its status at a steady pace, first alone, then beside
members of the reading group who pipeline `verify`, pipeline `flows`, connect in a loop, and all of
these.  Each of root's requests is a new connection, as that of a command is.
"""

from __future__ import annotations

import argparse
import time

import msgspec
import numpy as np

from benchmarks import goals, options
from benchmarks.churn_stage import OVER, ChurnStage
from benchmarks.context import Context
from benchmarks.record import Cell, Column, Record, Spread, Verdict, spread
from hostcc.errors import HostccError

ABUSERS = "benchmarks.control_abusers"
NOBODY = 65534
GROUP = "nogroup"
"""What Debian calls the group of that number."""
PACE_S = 0.05
PROCESSES = 3
"""Of each deed."""
ALONE = "nobody"
DEEDS: dict[str, tuple[str, ...]] = {
    ALONE: (),
    "pipelined verify": ("verify",),
    "pipelined flows": ("flows",),
    "connections in a loop": ("connect",),
    "all of these": ("verify", "flows", "connect"),
}
"""What the table calls it -> what is done."""
GOAL_S = 0.1


class Waits(msgspec.Struct, frozen=True):
    """How long root waited beside one kind of readers."""

    requests: int
    refused: int
    p50_s: float
    p99_s: float
    longest_s: float


def add_options(parser: argparse.ArgumentParser) -> None:
    """How long."""
    parser.add_argument(
        "--seconds", type=options.fraction("--seconds", 1, 3600), default=20.0, metavar="S",
        help="beside each kind of readers (default: %(default)g)",
    )  # fmt: skip


def run(args: argparse.Namespace, context: Context) -> Record:
    """Measure."""
    failures: list[str] = []
    found: dict[str, list[Waits]] = {name: [] for name in DEEDS}
    for _ in range(context.runs):
        try:
            measure(found, args.seconds, context)
        except (HostccError, OSError) as error:
            failures.append(str(error))
    measured = {name: waits for name, waits in found.items() if waits}
    return Record(
        benchmark="control-abuse",
        title="root's requests to an agent beside readers who take all they can get",
        parameters={"seconds": args.seconds, "processes": PROCESSES, "pace_s": PACE_S},
        columns=[
            Column("beside", "beside"),
            Column("requests", "requests", digits=0),
            Column("refused", "refused", digits=0),
            Column("p50_s", "p50 ms", digits=1, scale=1e3),
            Column("p99_s", "p99 ms", digits=1, scale=1e3),
            Column("longest_s", "longest ms", digits=1, scale=1e3),
        ],
        rows=[row(name, waits) for name, waits in measured.items()],
        goals=[one for name, waits in measured.items() for one in judge(name, waits)],
        failures=failures,
    )


def row(name: str, waits: list[Waits]) -> dict[str, Cell]:
    """One line of the table."""
    figures: dict[str, Spread] = {
        key: spread([getattr(one, key) for one in waits]) for key in Waits.__struct_fields__
    }
    return {"beside": name, **figures}


def judge(name: str, waits: list[Waits]) -> list[Verdict]:
    """Root is served, and soon."""
    p99 = [one.p99_s for one in waits]
    refused = [float(one.refused) for one in waits]
    return [
        goals.verdict(name, "p99 below 100 ms", p99, at_most=GOAL_S),
        goals.verdict(name, "nobody refuses root", refused, at_most=0),
    ]


def waits_of(seconds: list[float], refused: int) -> Waits:
    """The figures of one series."""
    p50, p99 = np.quantile(seconds, [0.5, 0.99]) if seconds else (np.inf, np.inf)
    return Waits(
        requests=len(seconds),
        refused=refused,
        p50_s=float(p50),
        p99_s=float(p99),
        longest_s=max(seconds, default=np.inf),
    )


def measure(found: dict[str, list[Waits]], seconds: float, context: Context) -> None:
    """One run of all.  Raises HostccError when it cannot begin."""
    with ChurnStage(hosts_per_leaf=1, over={**OVER, "agent": {"socket_group": GROUP}}) as stage:
        name = next(iter(stage.hosts))
        socket = stage.agents[name].socket
        for number, (words, deeds) in enumerate(DEEDS.items()):
            context.tell(words, number, len(DEEDS))
            readers = [
                stage.spawn(name, ABUSERS, socket, deed) for deed in deeds for _ in range(PROCESSES)
            ]
            try:
                found[words].append(ask_for(stage, name, seconds))
            finally:
                for reader in readers:
                    reader.kill()
                    reader.communicate()


def ask_for(stage: ChurnStage, name: str, seconds: float) -> Waits:
    """Root asks for so many seconds."""
    waits, refused = [], 0
    end = time.monotonic() + seconds
    while (began := time.monotonic()) < end:
        try:
            stage.ask(name, "status")
        except HostccError:
            refused += 1
        else:
            waits.append(time.monotonic() - began)
        time.sleep(max(0.0, began + PACE_S - time.monotonic()))
    return waits_of(waits, refused)
