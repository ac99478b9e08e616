"""Live flows moved again and again by real agents, through measuring, gossip and plan.

A job's checksummed connections run at full rate while the table of paths that its host reads is
reversed every five seconds: every flow is then on the wrong path, and its agent moves it.  No
connection may break, and afterwards the hosts are in their original state.  `repath` measures the
library alone, at full speed.  Details: docs/internals/steering.md.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Annotated, Any

import msgspec

from benchmarks import goals, options
from benchmarks.churn_stage import PORT, ChurnStage
from benchmarks.context import Context
from benchmarks.harness import repeated
from benchmarks.headings import Heading, columns
from benchmarks.paths_churn import end
from benchmarks.record import Cell, Record, spread
from hostcc.lab.errors import LabError

STREAMS = "benchmarks.churn_streams"
BYTES = 4 << 20
"""Of an iteration, all connections together."""
TURN_S = 5.0
"""As often as a file of paths is read again, at the least that paths.full_s may be."""
RATE_MBIT = 200.0
PORTS = (61_000, 63_000), (63_001, 65_000)
STANDS_STILL_S = 180.0


class Figures(msgspec.Struct, frozen=True):
    """One run."""

    connections: Annotated[int, Heading("connections", 0)]
    moves: Annotated[int, Heading("moves", 0)]
    refused: Annotated[int, Heading("refused", 0)]
    fell_back: Annotated[int, Heading("fell back", 0)]
    broken: Annotated[int, Heading("errors", 0)]
    """Connections that broke, or whose bytes did not all arrive."""
    unverified: int
    changed: int
    """Lines of the hosts' dumps that are not as before, and BPF objects that are left."""
    gbytes: Annotated[float, Heading("GB sent", 2)]
    again_percent: Annotated[float, Heading("sent again %", 2)]
    """Of segments, that were sent again."""
    seconds: Annotated[float, Heading("s", 0)]
    p50_s: Annotated[float, Heading("p50 ms", 1, 1e3)]
    """From a decision to the rewriting: a round trip of two messages by gossip."""
    p99_s: Annotated[float, Heading("p99 ms", 1, 1e3)]
    what: list[str]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Moves and connections."""
    parser.add_argument(
        "--moves", type=options.whole("--moves", 1, 100_000), default=1000, metavar="N",
        help="number of moves (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--connections", type=options.whole("--connections", 1, 60), default=32, metavar="N",
        help="(default: %(default)s)",
    )  # fmt: skip


def run(args: argparse.Namespace, context: Context) -> Record:
    """Measure the table."""
    parameters = {"moves": args.moves, "connections": args.connections}
    runs, failures = repeated(
        context,
        Figures,
        "repath-agents",
        parameters,
        lambda _: measure(args.moves, args.connections, context),
    )
    bad = ("broken", "unverified", "changed")
    return Record(
        benchmark="repath-agents",
        title="live TCP flows moved by real agents",
        parameters={**parameters, "runs": context.runs},
        columns=[
            *columns(Figures),
        ],
        rows=[_row(one) for one in runs],
        goals=[
            goals.verdict("agents", words, [float(getattr(one, key)) for one in runs], at_most=0)
            for key, words in zip(
                bad, ("no error", "verify is clean", "hosts are as they were found"), strict=True
            )
            if runs
        ],
        notes=[
            "p50 and p99 of the latest 1,000 moves, from the decision to the rewriting",
            *(words for one in runs for words in one.what),
        ],
        failures=failures,
    )  # fmt: skip


def measure(moves: int, connections: int, context: Context) -> Figures:
    """One run; raises LabError, BpfError or OSError."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "paths.toml"
        file.write_text("")
        with ChurnStage(RATE_MBIT, 1, settings(file)) as stage:
            ends = [stage.lab.named(name).address for name in ("h1", "h2")]
            stage.receive("h2")
            control = stage.agents["h1"].socket
            job = stage.spawn("h1", STREAMS, control, "job", ends[1], PORT, connections, BYTES)
            try:
                assert job.stdout is not None
                job.stdout.readline()
                start = time.monotonic()
                _move(stage, file, (ends[0], ends[1]), moves, context)
                seconds = time.monotonic() - start
                rows = stage.ask("h1", "flows")["flows"]
                done = stage.part("h1", "steering")
                odd = [d for name in stage.agents for d in stage.ask(name, "verify")["differences"]]
                out, _ = job.communicate(timeout=STANDS_STILL_S)
            finally:
                job.kill()
                job.wait()
            said: dict[str, Any] = json.loads(out)
            changed, left = end(stage, stage.held())
    segments = sum(row["bytes_acked"] / max(1, row["mss_bytes"]) for row in rows)
    again = sum(row["retransmitted_packets"] for row in rows)
    return Figures(
        connections, done["moved"], done["refused"], done["fell_back"], len(said["troubles"]),
        len(odd), len(changed) + len(left), said["bytes"] / 1e9, 100 * again / max(1.0, segments),
        seconds, done["move_s"]["p50"], done["move_s"]["p99"],
        [*said["troubles"][:3], *map(str, odd[:3]), *changed[:5], *left[:5]],
    )  # fmt: skip


def settings(file: Path) -> dict[str, Any]:
    """Of the agents: paths by `file`, read as often as possible, and nothing of how a flow fares
    sends it back."""
    return {
        "mltcp": {"mode": "off"},
        "paths": {
            "enabled": True, "source": "static", "file": str(file), "full_s": TURN_S,
            "elephant_bytes": 1000.0, "loss_share": 1.0, "rtt_factor": 1000.0,
        },
    }  # fmt: skip


def table(ends: tuple[str, str], turn: int) -> str:
    """Two paths from the first end to the other; ports change places every turn."""
    rows = []
    for number, (low, high) in enumerate(PORTS):
        links = [f"{ends[0]}>", f">way{(number + turn) % 2}", f">{ends[1]}"]
        rows.append(
            f'[[path]]\nsrc = "{ends[0]}"\ndst = "{ends[1]}"\n'
            f"links = {json.dumps(links)}\nports = [[{low}, {high}]]\n"
        )
    return "\n".join(rows)


def _move(
    stage: ChurnStage, file: Path, ends: tuple[str, str], moves: int, context: Context
) -> None:
    """Turn the table until there were so many moves."""
    turn, moved, moved_at = 0, 0, time.monotonic()
    while moved < moves:
        temporary = file.with_suffix(".new")
        temporary.write_text(table(ends, turn))
        temporary.replace(file)
        time.sleep(TURN_S)
        turn += 1
        now = int(stage.part("h1", "steering").get("moved", 0))
        if now > moved:
            moved_at = time.monotonic()
        elif time.monotonic() - moved_at > STANDS_STILL_S:
            states = stage.ask("h1", "status")["routing"]
            raise LabError(f"nothing moves any more: {json.dumps(states)[:1000]} {stage.log()}")
        moved = now
        context.tell("moves", moved, moves)


def _row(one: Figures) -> dict[str, Cell]:
    return {column.key: spread([float(getattr(one, column.key))]) for column in columns(Figures)}
