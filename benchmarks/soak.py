"""Hours of faults and churn on two hosts and their agents, by seed, and a check for traces.

Jobs with checked streams, peers, namespaces, paths and configurations come and go under two
agents.  The agents are paused, killed and stopped, their disks fill up and their clocks step, and
packets are lost.  No stream may break, and no agent may end by itself.  At the end agents hold the
same resources as at the start, and hosts are in their original state.  Details:
docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import secrets
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from benchmarks import goals, options, paths_churn
from benchmarks.context import Context
from benchmarks.record import Cell, Column, Record, Verdict
from benchmarks.soak_events import Event, events
from benchmarks.soak_samples import FILE, Sampler, growth, kept, slope
from benchmarks.soak_stage import SoakStage
from hostcc.bpf.loader.errors import BpfError
from hostcc.errors import HostccError

SEEDS = 2**31
TROUBLE_CHARS = 2000
MOST_TROUBLES = 8
"""After so many nothing new begins."""
SETTLE_S = 5.0
"""Before what agents hold is looked at for the first time."""
FREED_S = 60.0
MORE_FILES, MORE_THREADS = 8, 4
"""Connections of the gossip come and go, and so do threads that wait for the next task."""
MORE_BYTES = 25e6
"""An agent's memory, from the first to the last third of the run: what it learns of jobs is kept
for a while."""
FIGURES = "figures.json"


class Figures(msgspec.Struct, frozen=True):
    """One run."""

    seed: int
    minutes: float
    happened: dict[str, int]
    """Kind -> how often."""
    left_out: int
    """Beginnings that came too late to happen."""
    late_s: float
    """The most that anything happened later than drawn."""
    connections: int
    sent_bytes: int
    restarts: int
    moved: int
    """Flows moved to another path."""
    resident_bytes: int
    """Of the larger agent, before anything happened, and likewise:"""
    resident_most_bytes: int
    resident_after_bytes: int
    grown_bytes: float
    slope_bytes_per_s: float | None
    """Of memory; None: no agent lived long enough."""
    more_files: int
    more_threads: int
    leaked_entries: int
    """Of BPF maps, more than before; likewise:"""
    leaked_objects: int
    unverified: int
    """Differences that `hostcc verify` finds."""
    changed: int
    """Lines of the hosts' dumps that differ from those before the agents began."""
    outlived: int
    """BPF objects that are still there after all agents."""
    left: int
    """Processes of the hosts, and files, likewise."""
    troubles: list[str]
    """What was not as it should be, with the event after which."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """How long, by which seed."""
    parser.add_argument(
        "--minutes", type=options.fraction("--minutes", 0.05, 10_000), default=60.0, metavar="N",
        help="(default: %(default)g)",
    )  # fmt: skip
    parser.add_argument(
        "--seed", type=options.whole("--seed", 0, SEEDS - 1), default=None, metavar="N",
        help="seed of the events; the same seed plays the same events (default: drawn and printed)",
    )  # fmt: skip


def run(args: argparse.Namespace, context: Context) -> Record:
    """Measure once, whatever --runs says; with --report, what a run before has found."""
    seed = secrets.randbelow(SEEDS) if args.seed is None else args.seed
    failures: list[str] = []
    found: Figures | None = None
    if context.report_only:
        found = _kept(context.out)
    else:
        context.say(f"seed {seed}")
        player = Player(seed, context)
        try:
            found = measure(player, args.minutes, context)
        except (HostccError, BpfError, OSError) as error:
            failures = [f"seed {seed}: {one}" for one in (*player.troubles, error)]
    return record(found, failures or ([] if found else ["no run before"]))


def record(found: Figures | None, failures: Sequence[str] = ()) -> Record:
    """The table, and everything that was not as it should be."""
    verdicts = judge(found) if found else []
    wrong = [] if found is None else [f"seed {found.seed}: {one}" for one in found.troubles]
    missed = [f"{one.goal}: missed" for one in verdicts if not one.met]
    return Record(
        benchmark="soak",
        title="two agents under faults and churn",
        parameters={
            "seed": found.seed if found else None,
            "minutes": found.minutes if found else None,
        },
        columns=[Column("what", "what"), Column("measured", "measured", digits=1)],
        rows=rows(found) if found else [],
        goals=verdicts,
        notes=[f"the same again: --seed {found.seed} --minutes {found.minutes:g}"] if found else [],
        failures=[*failures, *wrong, *missed],
    )


def rows(found: Figures) -> list[dict[str, Cell]]:
    """What happened, and what it took."""
    grows = found.slope_bytes_per_s
    measured: dict[str, Cell] = {
        **dict(found.happened),
        "came too late to happen": found.left_out,
        "at most late, s": found.late_s,
        "connections": found.connections,
        "sent, GB": found.sent_bytes / 1e9,
        "agents started again": found.restarts,
        "flows moved": found.moved,
        "memory before, MB": found.resident_bytes / 1e6,
        "memory at most, MB": found.resident_most_bytes / 1e6,
        "memory after, MB": found.resident_after_bytes / 1e6,
        "memory grows, MB / hour": None if grows is None else grows * 3600 / 1e6,
    }
    return [{"what": what, "measured": value} for what, value in measured.items()]


def judge(found: Figures) -> list[Verdict]:
    """Nothing broke, nothing leaked, nothing is left."""
    limits = {
        "leaked_entries": ("no entry of a BPF map leaks", 0.0),
        "leaked_objects": ("no BPF object leaks", 0.0),
        "more_files": (f"at most {MORE_FILES} more open files", MORE_FILES),
        "more_threads": (f"at most {MORE_THREADS} more threads", MORE_THREADS),
        "grown_bytes": (f"memory grows by at most {MORE_BYTES / 1e6:g} MB", MORE_BYTES),
        "unverified": ("verify is clean", 0.0),
        "changed": ("hosts are as they were found", 0.0),
        "outlived": ("no BPF object outlives its agent", 0.0),
        "left": ("no process and no file is left", 0.0),
    }
    wrong = float(len(found.troubles))
    return [
        goals.verdict("soak", "all went as it should", [wrong], at_most=0),
        *(
            goals.verdict("soak", words, [float(getattr(found, key))], at_most=limit)
            for key, (words, limit) in limits.items()
        ),
    ]


def draw(record: Record, out: Path) -> Sequence[Path]:  # noqa: ARG001
    """Memory and open files over time."""
    from benchmarks import soak_plot

    samples = kept(out / FILE)
    return [soak_plot.draw(samples, out / "soak.png")] if samples else []


def measure(played: Player, minutes: float, context: Context) -> Figures:
    """One run; raises HostccError, BpfError or OSError when it cannot even begin or end."""
    seed = played.seed
    with SoakStage(context.out) as stage:
        stage.hear()
        time.sleep(SETTLE_S)
        before = stage.held()
        path = context.out / FILE if context.out is not None else None
        with Sampler(stage.agents, path) as sampler:
            played.play(stage, events(seed, minutes * 60), minutes * 60)
            played.attempt("at the end", stage.steady)
            played.attempt("at the end", stage.calm)
        after = paths_churn.quiet(stage, before)
        odd = [
            f"at the end: {name}: {one}"
            for name in stage.agents
            for one in stage.ask(name, "verify")["differences"]
        ]
        moved = stage.moved + sum(host.moved for host in stage.hosts.values())
        leaked, more = paths_churn.entries(before, after), paths_churn.objects(before, after)
        changed, outlived = paths_churn.end(stage, sampler.ever(after))
        left = _gone(stage.left)
    of_before = max(one.resident_bytes for one in before.values())
    found = Figures(
        seed, minutes, dict(sorted(played.happened.items())), played.left_out, played.late_s,
        stage.streams, stage.sent_bytes, stage.restarts, moved, of_before,
        max([of_before, *(one.resident_bytes for one in sampler.samples)]),
        max(one.resident_bytes for one in after.values()),
        growth(sampler.samples, lambda one: one.resident_bytes),
        slope(sampler.samples, lambda one: one.resident_bytes),
        max(after[name].open_files - before[name].open_files for name in before),
        max(after[name].threads - before[name].threads for name in before),
        sum(leaked.values()), sum(more.values()), len(odd), len(changed), len(outlived), len(left),
        [*played.troubles, *odd[:5],
         *(f"at the end: leaked {one}" for one in (leaked | more).items()),
         *(f"after the end: {one}" for one in (*changed[:10], *outlived[:5], *left[:5]))],
    )  # fmt: skip
    if context.out is not None:
        (context.out / FIGURES).write_bytes(msgspec.json.encode(found))
    return found


class Player:
    """Lets events happen at their times, and writes down what goes wrong."""

    def __init__(self, seed: int, context: Context) -> None:
        self.seed = seed
        self.happened: Counter[str] = Counter()
        self.left_out = 0
        self.late_s = 0.0
        self.troubles: list[str] = []
        self._context = context

    def play(self, stage: SoakStage, drawn: Sequence[Event], seconds: float) -> None:
        """All of them; what would begin after so many seconds, or after MOST_TROUBLES, does not."""
        start = time.monotonic()
        for event in drawn:
            time.sleep(max(0.0, event.at_s - (time.monotonic() - start)))
            late_s = time.monotonic() - start - event.at_s
            over = late_s + event.at_s > seconds or len(self.troubles) >= MOST_TROUBLES
            if event.begins and over:
                self.left_out += 1
                continue
            self.late_s = max(self.late_s, late_s)
            self.happened[event.kind] += event.begins
            self._context.tell(str(event), event.at_s, seconds)
            self._context.say(str(event))
            self._happen(stage, event)

    def attempt(self, what: str, action: Callable[[], object]) -> None:
        """Do something; that it fails is a trouble."""
        try:
            action()
        except (HostccError, BpfError, OSError, subprocess.SubprocessError) as error:
            self._wrong(what, str(error))

    def _happen(self, stage: SoakStage, event: Event) -> None:
        self.attempt(str(event), lambda: stage.apply(event))
        for trouble in stage.check():
            self._wrong(str(event), trouble)

    def _wrong(self, what: str, why: str) -> None:
        self.troubles.append(f"{what}: {' '.join(why.split())[:TROUBLE_CHARS]}")
        self._context.say(f"seed {self.seed}: {self.troubles[-1]}")


def _gone(left: Callable[[], list[str]]) -> list[str]:
    """What is left, once nothing is or FREED_S later."""
    until = time.monotonic() + FREED_S
    while (found := left()) and time.monotonic() < until:
        time.sleep(0.5)
    return found


def _kept(out: Path | None) -> Figures | None:
    path = None if out is None else out / FIGURES
    if path is None or not path.exists():
        return None
    return msgspec.json.decode(path.read_bytes(), type=Figures)
