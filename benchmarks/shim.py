"""Cost of the transport shim: ib_write_lat and ib_write_bw, in turn without and with it.

Needs perftest and two RDMA devices that reach each other, as two ports of this host or two
Soft-RoCE devices do.  `idle` is the shim without an agent, `active` with a plan for the job,
`armed` with a gate of its bursts, too, that is open.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks import options
from benchmarks.context import Context
from benchmarks.record import Cell, Column, Record, Verdict, spread
from hostcc.errors import HostccError, InputError
from hostcc.verbs import inject
from hostcc.verbs.plan_region import BurstGate, PlanRegion, RdmaJob

DEVICES = Path("/sys/class/infiniband")
KINDS = ("without", "idle", "active", "armed")
TRAFFIC_CLASS = 0x68
LIMIT_S = 120
GOAL = 0.01
"""Of the figure without the shim: more would be a measurable cost."""
JOB = "bench-shim"
OPEN = BurstGate(closed_until_ns=0, period_ns=100_000_000, silence_ns=10_000_000)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Devices, and how much to send."""
    parser.add_argument("--devices", default="", metavar="A,B", help="(default: the first two)")
    for name, least, most, default, about in (
        ("--gid-index", 0, 255, 1, "of both devices' addresses"),
        ("--messages", 100, 10**7, 1000, "of each measurement"),
        ("--size", 2, 1 << 26, 16384, "bytes of a message"),
        ("--depth", 1, 1024, 8, "of the send queue"),
    ):
        parser.add_argument(
            name,
            type=options.whole(name, least, most),
            default=default,
            metavar="N",
            help=f"{about} (default: %(default)s)",
        )


def run(args: argparse.Namespace, context: Context) -> Record:
    """Pairs of both programs, `context.runs` of each."""
    near, far = devices(args.devices)
    inject.check()
    if not shutil.which("ib_write_bw"):
        raise HostccError("ib_write_bw not found; install the package perftest")
    rows: list[dict[str, Cell]] = []
    goals: list[Verdict] = []
    bulk = ["-x", str(args.gid_index), "-n", str(args.messages), "-F"]
    for tool, unit, more in (
        ("ib_write_lat", "us", ["-s", "64"]),
        ("ib_write_bw", "MB/s", ["-s", str(args.size), "-t", str(args.depth)]),
    ):
        found: dict[str, list[float]] = {kind: [] for kind in KINDS}
        for number in range(context.runs):
            for kind, values in found.items():
                context.tell(f"{tool} {kind}", number, context.runs)
                with surroundings(kind) as environment:
                    values.append(measured([tool, *bulk, *more], near, far, environment))
        for kind, values in found.items():
            cost = relative(found["without"], values, higher_is_worse=unit == "us")
            rows.append({
                "program": tool, "kind": kind, "unit": unit, "value": spread(values),
                "cost": spread([100 * one for one in cost]),
            })  # fmt: skip
            if kind != "without":
                middle = statistics.median(cost)
                goals.append(
                    Verdict(
                        f"{tool}, {kind}", "costs at most 1 %", spread(cost),
                        sum(one <= GOAL for one in cost), middle <= GOAL,
                    )
                )  # fmt: skip
    return Record(
        benchmark="shim",
        title="the transport shim's cost, in pairs",
        parameters={
            "devices": [near, far], "messages": args.messages, "size": args.size,
            "depth": args.depth, "runs": context.runs,
        },
        columns=[
            Column("program", "program"), Column("kind", "shim"), Column("value", "typical"),
            Column("unit", "unit"), Column("cost", "cost %", digits=2),
        ],
        rows=rows,
        goals=goals,
        notes=["cost: against the run without the shim just before it; below 0 is noise"],
    )  # fmt: skip


def relative(
    before: Sequence[float], after: Sequence[float], *, higher_is_worse: bool
) -> list[float]:
    """How much worse, pair by pair, as a share."""
    pairs = zip(before, after, strict=True)
    if higher_is_worse:
        return [new / old - 1 for old, new in pairs]
    return [old / new - 1 for old, new in pairs]


def devices(words: str) -> tuple[str, str]:
    """The two devices.  Raises HostccError."""
    present = sorted(path.name for path in DEVICES.glob("*"))
    chosen = [word for word in words.split(",") if word] or present[:2]
    if len(chosen) != 2 or not set(chosen) <= set(present):
        if words:
            raise InputError(f"--devices: expected two of {present or 'none'}, got {words:.80}")
        raise HostccError("needs two RDMA devices on this host")
    return chosen[0], chosen[1]


@contextmanager
def surroundings(kind: str) -> Iterator[dict[str, str]]:
    """The environment of the programs, and a plan where there has to be one."""
    environment = dict(os.environ)
    if kind == "without":
        yield environment
        return
    with tempfile.TemporaryDirectory(prefix="hostcc-shim-", dir="/dev/shm") as folder:
        path = Path(folder) / "plan"
        more = {"HOSTCC_RDMA_PLAN": str(path), "HOSTCC_RDMA_COUNTS": f"{folder}/qp"}
        environment = inject.environment(JOB, environment) | more
        if kind == "idle":
            yield environment
            return
        region = PlanRegion.create(path, jobs=1)
        region.publish([RdmaJob(JOB, traffic_class=TRAFFIC_CLASS)])
        if kind == "armed":
            region.set_gate(JOB, OPEN)
        done = threading.Event()

        def live() -> None:
            while not done.wait(0.2):
                region.beat()

        thread = threading.Thread(target=live)
        thread.start()
        try:
            yield environment
        finally:
            done.set()
            thread.join()
            region.close()


def measured(words: list[str], near: str, far: str, environment: dict[str, str]) -> float:
    """The typical figure of one run.  Raises HostccError."""
    server = subprocess.Popen(
        [*words, "-d", far], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    said = ""
    try:
        for _ in range(20):  # the server takes a moment to listen
            time.sleep(0.5)
            done = subprocess.run(
                [*words, "-d", near, "127.0.0.1"], env=environment, capture_output=True,
                text=True, check=False, timeout=LIMIT_S,
            )  # fmt: skip
            if done.returncode == 0:
                return figure(done.stdout)
            said = " ".join((done.stderr or done.stdout).split())
            if "Couldn't connect" not in said or server.poll() is not None:
                break
    except subprocess.TimeoutExpired:
        raise HostccError(f"{words[0]}: no end after {LIMIT_S} s") from None
    finally:
        server.kill()
        server.wait()
    raise HostccError(f"{words[0]}: {said[:200]}")


def figure(text: str) -> float:
    """Typical latency (us), or average bandwidth (MB/s), of perftest's last line.

    Raises HostccError for text without one.
    """
    rows = [line.split() for line in text.splitlines() if re.match(r"^\s*\d+\s+\d+\s+\S", line)]
    columns = rows[-1] if rows else []
    place = 4 if len(columns) > 6 else 3
    try:
        return float(columns[place])
    except (IndexError, ValueError):
        raise HostccError("perftest: expected a line of results") from None
