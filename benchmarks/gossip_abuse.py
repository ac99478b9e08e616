"""An agent under pauses, hostile connections and floods with a member's key.

Two agents with keys gossip.  While one is paused again and again, together with its gossip
process, the other's host opens connections without a valid handshake, and floods it with a
member's own key.  The agent must survive all of it, and the two must reach each other afterwards.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import msgspec

from benchmarks import goals, options
from benchmarks.churn_stage import ChurnStage
from benchmarks.context import Context
from benchmarks.held import held
from benchmarks.record import Cell, Column, Record, Verdict
from hostcc.errors import HostccError
from hostcc.lab.errors import LabError
from hostcc.lab.gossip_setup import PORT

ABUSERS = "benchmarks.gossip_abusers"
SHORTEST_PAUSE_S = 0.3
BETWEEN_S = 0.5
"""Between two pauses."""
LOOK_S = 0.5
PATIENCE_S = 300.0
"""Until all is over, a member that was shut out for its floods is let in, and is heard of."""


class Outcome(msgspec.Struct, frozen=True):
    """One run."""

    pauses: int
    paused_s: float
    agents_ended: int
    """How often the agent was no longer there; nothing goes on after the first time."""
    process_restarts: int
    """Of the process that has the sockets."""
    refused: int
    """What came over the network and was not taken."""
    heard_again: bool
    child_bytes: int
    """Resident, of that process at the end."""
    agent_bytes: int


def add_options(parser: argparse.ArgumentParser) -> None:
    """How much of what."""
    for word, most, default, about in (
        ("--pauses", 10_000, 200, "SIGSTOP and SIGCONT"),
        ("--connections", 10**6, 6000, "hostile connections without keys"),
        ("--floods", 10**5, 1000, "floods with a member's key"),
    ):
        parser.add_argument(
            word, type=options.whole(word, 0, most), default=default, metavar="N",
            help=f"{about} (default: %(default)s)",
        )  # fmt: skip
    parser.add_argument(
        "--longest", type=options.fraction("--longest", SHORTEST_PAUSE_S, 600), default=30.0,
        metavar="S", help="longest pause; the shortest is 0.3 s (default: %(default)g)",
    )  # fmt: skip
    parser.add_argument(
        "--seed", type=options.whole("--seed", 0, 2**31), default=1, metavar="N",
        help="seed of the pauses (default: %(default)s)",
    )  # fmt: skip


def run(args: argparse.Namespace, context: Context) -> Record:
    """Measure once, whatever --runs says."""
    failures: list[str] = []
    found: Outcome | None = None
    try:
        lengths = pauses(args.seed, args.pauses, args.longest)
        found = measure(lengths, args.connections, args.floods, context)
    except (HostccError, OSError) as error:
        failures = [str(error)]
    verdicts = judge(found) if found else []
    return Record(
        benchmark="gossip-abuse",
        title="an agent under pauses, hostile connections and floods with a member's key",
        parameters={
            "pauses": args.pauses, "longest_s": args.longest, "connections": args.connections,
            "floods": args.floods, "seed": args.seed,
        },
        columns=[Column("what", "what"), Column("measured", "measured", digits=1)],
        rows=rows(found) if found else [],
        goals=verdicts,
        notes=[],
        failures=[*failures, *(f"{one.goal}: missed" for one in verdicts if not one.met)],
    )  # fmt: skip


def pauses(seed: int, number: int, longest_s: float) -> list[float]:
    """Their lengths, seconds: as many of each order of magnitude."""
    rng = random.Random(seed)
    ends = math.log(SHORTEST_PAUSE_S), math.log(longest_s)
    return [math.exp(rng.uniform(*ends)) for _ in range(number)]


def rows(found: Outcome) -> list[dict[str, Cell]]:
    """The table."""
    measured: dict[str, Cell] = {
        "pauses": found.pauses,
        "paused in all, s": found.paused_s,
        "agents ended": found.agents_ended,
        "process of the sockets started again": found.process_restarts,
        "refused from the network": found.refused,
        "memory of that process, MB": found.child_bytes / 1e6,
        "memory of the agent, MB": found.agent_bytes / 1e6,
    }
    return [{"what": what, "measured": value} for what, value in measured.items()]


def judge(found: Outcome) -> list[Verdict]:
    """What must not happen."""
    ended, again = float(found.agents_ended), float(found.heard_again)
    return [
        goals.verdict("agent", "nothing ends it", [ended], at_most=0),
        goals.verdict("gossip", "hosts hear of each other again", [again], at_least=1),
    ]


def measure(lengths: list[float], connections: int, floods: int, context: Context) -> Outcome:
    """One run.  Raises HostccError and OSError when it cannot even begin."""
    with ChurnStage(hosts_per_leaf=1) as stage:
        victim, other = stage.hosts
        at = f"{stage.lab.gossip_address(stage.lab.named(victim))}:{PORT}"
        keys = stage.lab.run_dir / other / "keys"
        agent = stage.agents[victim].process

        def gossip() -> dict[str, Any]:
            return stage.ask(victim, "status")["gossip"] or {}

        def child() -> int:
            return (gossip().get("process") or {}).get("pid") or 0

        def together() -> bool:
            with suppress(HostccError):
                return gossip().get("members") == {"alive": 1}
            return False

        wait(together, "hosts to hear of each other")
        loads = [
            stage.spawn(other, ABUSERS, at, "connections", connections),
            stage.spawn(
                other, ABUSERS, at, "floods", floods, "--keys", keys, "--server", victim
            ),
        ]  # fmt: skip
        done, paused_s = 0, 0.0
        for length in lengths:
            context.tell("pauses", done, len(lengths))
            with _stopped(agent.pid, child()):
                time.sleep(length)
            paused_s += length
            done += 1
            time.sleep(BETWEEN_S)
            if agent.poll() is not None:
                break
        while agent.poll() is None and any(load.poll() is None for load in loads):
            time.sleep(LOOK_S)
        heard = agent.poll() is None
        if heard:
            try:
                wait(together, "hosts to hear of each other again")
            except LabError:
                heard = False
        _end(loads)
        if agent.poll() is not None:
            return Outcome(done, paused_s, 1, 0, 0, False, 0, 0)
        last = gossip()
        return Outcome(
            pauses=done,
            paused_s=paused_s,
            agents_ended=0,
            process_restarts=last["process"]["restarts"],
            refused=last["counters"].get("refused", 0),
            heard_again=heard,
            child_bytes=held(last["process"]["pid"]).resident_bytes,
            agent_bytes=held(agent.pid).resident_bytes,
        )


def wait(true: Callable[[], bool], what: str) -> None:
    """Until it is so.  Raises LabError."""
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        if time.monotonic() > deadline:
            raise LabError(f"waited {PATIENCE_S:g} s for {what}")
        time.sleep(LOOK_S)


@contextmanager
def _stopped(*pids: int) -> Iterator[None]:
    _signal(pids, signal.SIGSTOP)
    try:
        yield
    finally:
        _signal(pids, signal.SIGCONT)


def _signal(pids: tuple[int, ...], number: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):  # another one has its place
            if pid:
                os.kill(pid, number)


def _end(loads: list[subprocess.Popen[bytes]]) -> None:
    for load in loads:
        load.kill()
        load.communicate()
