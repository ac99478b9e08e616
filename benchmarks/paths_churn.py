"""Churn of jobs under agents with all parts on: leaks, and traces left on hosts.

Real agents on a leaf-spine fabric measure, gossip, plan, move flows, mark them and keep queues by
level, while jobs with checksummed connections begin and end.  At the end, without jobs, each agent
holds the same resources as before the first job; three ways of ending an agent restore its host.
Details: docs/internals/steering.md.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Mapping, Sequence

import msgspec

from benchmarks import goals, host_dump, options
from benchmarks.churn_stage import ChurnStage, Life
from benchmarks.context import Context
from benchmarks.harness import repeated
from benchmarks.held import KernelResources, outliving
from benchmarks.record import Cell, Column, Record, Verdict, spread

LONG = 0.3
"""Of jobs, those that live long enough to be planned."""
PERIOD_S, BYTES = 0.2, 1 << 18
SAMPLE_S = 5.0
QUIET_S = 120.0
FREED_S = 60.0
"""For the kernel to free what nobody holds any more."""
MORE_FILES = 8
"""Connections of the gossip come and go as well."""
MORE_BYTES = 20e6
"""From the first to the last third of a run; what is learned of jobs is kept for a while."""


class Figures(msgspec.Struct, frozen=True):
    """One run."""

    jobs: int
    seconds: float
    moved: int
    """Flows moved to another path."""
    broken: int
    """Connections that broke, or whose bytes did not all arrive."""
    leaked_entries: int
    """Of BPF maps, more than before the first job."""
    leaked_objects: int
    """Programs, maps and links, likewise."""
    more_files: int
    """Open files of the agent that has most more of them than before the first job."""
    grown_bytes: float
    """An agent's memory, from the first to the last third of the run."""
    unverified: int
    """Differences that `hostcc verify` finds."""
    changed: int
    """Lines of the hosts' dumps that differ from those before the agents began."""
    outlived: int
    """BPF objects that are still there after their agent."""
    path_s: list[float]
    """From a connection's first byte until it was seen on its planned path, in order."""
    mark_s: list[float]
    lived: int
    """Connections that lived long enough for that."""
    what: list[str]
    """Of what went wrong, the first in words."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """How many jobs."""
    parser.add_argument(
        "--jobs", type=options.whole("--jobs", 1, 1_000_000), default=1000, metavar="N",
        help="number of jobs (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--alive", type=options.whole("--alive", 1, 100), default=4, metavar="N",
        help="jobs at a time on each host (default: %(default)s)",
    )  # fmt: skip


def run(args: argparse.Namespace, context: Context) -> Record:
    """Measure the table."""
    parameters = {"jobs": args.jobs, "alive": args.alive}
    runs, failures = repeated(
        context, Figures, "churn", parameters, lambda _: measure(args.jobs, args.alive, context)
    )
    return Record(
        benchmark="paths-churn",
        title="jobs that come and go under agents with all parts on",
        parameters={**parameters, "runs": context.runs},
        columns=[
            Column("jobs", "jobs", digits=0),
            Column("seconds", "s", digits=0),
            Column("moved", "flows moved", digits=0),
            Column("grown_bytes", "memory grown MB", digits=1, scale=1e-6),
            Column("more_files", "more files", digits=0),
            Column("lived", "lived long", digits=0),
            Column("path_share", "on planned path %", digits=0),
            Column("path_p50", "after s, p50", digits=1),
            Column("path_p99", "p99", digits=1),
            Column("mark_share", "marked %", digits=0),
            Column("mark_p50", "after s, p50", digits=1),
            Column("mark_p99", "p99", digits=1),
        ],
        rows=[_row(one) for one in runs],
        goals=judge(runs) if runs else [],
        notes=[
            "lag: from a job's first byte, before anything is known of it; seen 4 times a second",
            *(words for one in runs for words in one.what),
        ],
        failures=failures,
    )  # fmt: skip


def measure(jobs: int, alive: int, context: Context) -> Figures:
    """One run; raises LabError, BpfError or OSError."""
    with ChurnStage() as stage:
        before, start = stage.held(), time.monotonic()
        stage.churn(alive, LONG, PERIOD_S, BYTES)
        resident = []
        while stage.came < jobs:
            time.sleep(SAMPLE_S)
            resident.append(sum(one.resident_bytes for one in stage.held().values()))
            context.tell("churn", stage.came, jobs)
        seconds = time.monotonic() - start
        stage.settle()
        after = quiet(stage, before)
        odd = [d for name in stage.agents for d in stage.ask(name, "verify")["differences"]]
        came, broken = stage.came, stage.troubles()
        changed, outlived = end(stage, after)
        moved = sum(host.moved for host in stage.hosts.values())
        path_s, lived = stage.lags(_path)
        mark_s, _ = stage.lags(_mark)
    leaked, more = entries(before, after), objects(before, after)
    return Figures(
        came, seconds, moved, len(broken), sum(leaked.values()), sum(more.values()),
        max(after[name].open_files - before[name].open_files for name in before),
        growth(resident) / len(before),
        len(odd), len(changed), len(outlived), path_s, mark_s, lived,
        [*broken[:3], *map(str, (leaked | more).items()), *map(str, odd[:3]), *changed[:5],
         *outlived[:5]],
    )  # fmt: skip


def quiet(stage: ChurnStage, before: Mapping[str, KernelResources]) -> dict[str, KernelResources]:
    """What agents hold once that is no more than before, or QUIET_S later: entries of tables, and
    programs for namespaces that are gone, are tidied up with the next look at all sockets only."""
    until = time.monotonic() + QUIET_S
    while True:
        after = stage.held()
        files = max(after[name].open_files - before[name].open_files for name in before)
        more = entries(before, after) or objects(before, after) or files > MORE_FILES
        if not more or time.monotonic() > until:
            return after
        time.sleep(1.0)


def end(stage: ChurnStage, was: Mapping[str, KernelResources]) -> tuple[list[str], list[str]]:
    """End every agent, each in another way: lines of the hosts' dumps that have changed, and
    objects that are still there."""
    ways = (stage.stop, stage.roll_back, stage.kill_and_roll_back)
    names = list(stage.agents)
    for number, name in enumerate(names):
        ways[number % len(ways)](name)
    until = time.monotonic() + FREED_S
    while True:
        left = [f"{name}: {one}" for name in names for one in outliving(was[name])]
        changed = [
            f"{name}: {line}"
            for name in names
            for line in host_dump.differences(stage.before[name], stage.dump(name))
        ]
        if not (left or changed) or time.monotonic() > until:
            return changed, left
        time.sleep(0.5)


def entries(
    before: Mapping[str, KernelResources], after: Mapping[str, KernelResources]
) -> dict[str, int]:
    """ "HOST MAP" -> how many entries more than before, where there are more."""
    grown = {
        f"{name} {table}": count - before[name].entries.get(table, 0)
        for name, now in after.items()
        for table, count in now.entries.items()
    }
    return {what: count for what, count in grown.items() if count > 0}


def objects(
    before: Mapping[str, KernelResources], after: Mapping[str, KernelResources]
) -> dict[str, int]:
    """ "HOST KIND" -> how many programs, maps or links more than before, where there are more."""
    grown = {
        f"{name} {kind}": len(ids) - len(before[name].ids[kind])
        for name, now in after.items()
        for kind, ids in now.ids.items()
    }
    return {what: count for what, count in grown.items() if count > 0}


def growth(values: Sequence[float]) -> float:
    """Median of the last third less the median of the first; 0 for fewer than three."""
    third = len(values) // 3
    if not third:
        return 0.0
    return statistics.median(values[-third:]) - statistics.median(values[:third])


def judge(runs: Sequence[Figures]) -> list[Verdict]:
    """Nothing leaks, nothing is left, nothing broke."""
    nothing = {
        "broken": "no connection broke",
        "leaked_entries": "no entry of a BPF map leaks",
        "leaked_objects": "no BPF object leaks",
        "unverified": "verify is clean",
        "changed": "hosts are as they were found",
        "outlived": "no BPF object outlives its agent",
    }
    limits = {
        "more_files": (f"at most {MORE_FILES} more open files", MORE_FILES),
        "grown_bytes": (f"memory grows by at most {MORE_BYTES / 1e6:g} MB", MORE_BYTES),
    }
    wanted = {**{key: (words, 0.0) for key, words in nothing.items()}, **limits}
    return [
        goals.verdict("churn", words, [float(getattr(one, key)) for one in runs], at_most=limit)
        for key, (words, limit) in wanted.items()
    ]


def at(share: float, ordered: Sequence[float]) -> float | None:
    """A percentile: the least value that so many are not above; None of nothing."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else None


def _path(life: Life) -> float:
    return life.path_at


def _mark(life: Life) -> float:
    return life.mark_at


def _row(one: Figures) -> dict[str, Cell]:
    row: dict[str, Cell] = {
        key: spread([float(getattr(one, key))])
        for key in ("jobs", "seconds", "moved", "grown_bytes", "more_files", "lived")
    }
    for name, lags in (("path", one.path_s), ("mark", one.mark_s)):
        row[f"{name}_share"] = 100 * len(lags) / one.lived if one.lived else None
        row[f"{name}_p50"], row[f"{name}_p99"] = at(0.5, lags), at(0.99, lags)
    return row
