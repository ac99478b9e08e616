"""Gossip over real sockets: many processes, kill -9, a cut wire, restarts, and churn.

Every member is a process with keys of its own.  Half of them are at either end of a wire between
two network namespaces.  Measured is the time until all members that can reach each other know
exactly each other and follow one plan; then, while members die and return, the use of the machine
by the members that stay.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time

import msgspec

from benchmarks import options
from benchmarks.context import Context
from benchmarks.gossip_cluster import Cluster
from benchmarks.harness import repeated
from benchmarks.record import Cell, Column, Record, Verdict, spread

WITHIN_S = 120.0
AT_REST_S = 12.0
CHURN_EVERY_S = 2.0
CUT_EVERY_S = 60.0
CUT_FOR_S = 10.0
SETTLE_S = 45.0
"""Of churn, before the first look at what the steady ones take: caches fill."""
GROWTH = {"descriptors": 8.0, "sockets": 8.0, "threads": 0.0, "resident_bytes": 4e6}
"""More than so much, from the first to the last third of the churn, is growth."""


class Event(msgspec.Struct, frozen=True):
    """One thing that happened to the members."""

    what: str
    seconds: float
    """Until they agreed."""


class Growth(msgspec.Struct, frozen=True):
    """What a member that was never killed takes, at the median over them."""

    what: str
    first: float
    """In the first third of the churn."""
    last: float
    """In the last third."""


class Outcome(msgspec.Struct, frozen=True):
    """One run."""

    events: list[Event]
    growth: list[Growth]
    deaths: int
    cpu_percent: float
    """Of one CPU, of a member at rest."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """How many, for how long."""
    parser.add_argument(
        "--members",
        type=options.whole("--members", 6, 200),
        default=50,
        metavar="N",
        help="members, each a process (default: %(default)s)",
    )
    parser.add_argument(
        "--minutes",
        type=options.fraction("--minutes", 0, 240),
        default=10.0,
        metavar="M",
        help="minutes of churn; 0: none (default: %(default)g)",
    )


def run(args: argparse.Namespace, context: Context) -> Record:
    """Measure."""
    found, failures = repeated(
        context,
        Outcome,
        "gossip-sockets",
        {"members": args.members, "minutes": args.minutes},
        lambda _: measure(args.members, 60 * args.minutes, context),
    )
    return report(args.members, args.minutes, found, failures)


def report(members: int, minutes: float, found: list[Outcome], failures: list[str]) -> Record:
    """The record of some runs."""
    rows: list[dict[str, Cell]] = []
    if found:
        for index, event in enumerate(found[0].events):
            seconds = spread([outcome.events[index].seconds for outcome in found])
            rows.append({"what": event.what, "seconds": seconds})
    goals = []
    for index, growth in enumerate(found[0].growth if found else []):
        more = [o.growth[index].last - o.growth[index].first for o in found]
        passing = sum(one <= GROWTH[growth.what] for one in more)
        goals.append(
            Verdict(
                f"{growth.what}: {growth.first:g} -> {growth.last:g}",
                f"grows by at most {GROWTH[growth.what]:g} in {minutes:g} minutes of churn",
                spread(more),
                passing,
                statistics.median(more) <= GROWTH[growth.what],
            )
        )
    notes = [f"churn: {outcome.deaths} members killed" for outcome in found if outcome.growth]
    notes += [f"a member at rest: {o.cpu_percent:.2f} % of one CPU" for o in found]
    return Record(
        benchmark="gossip-sockets",
        title=f"{members} members as processes, over CURVE",
        parameters={"members": members, "minutes": minutes},
        columns=[Column("what", "what happened"), Column("seconds", "s to agreement", digits=1)],
        rows=rows,
        goals=goals,
        notes=notes,
        failures=failures,
    )


def measure(count: int, churn_s: float, context: Context) -> Outcome:
    """One run.  Raises LabError."""
    steps = 7
    rng = random.Random(count)
    events: list[Event] = []

    with Cluster(count) as cluster:

        def agreed(what: str, *groups: list[str]) -> None:
            context.tell(what, len(events), steps)
            seconds = cluster.wait(lambda: all(cluster.agree(group) for group in groups), WITHIN_S)
            events.append(Event(what, seconds))

        names = cluster.names
        cluster.start(names)
        agreed("all of them start", names)
        cpu = _at_rest(cluster)
        victims = names[1::3]
        rest = [name for name in names if name not in victims]
        cluster.kill(victims)
        agreed("kill -9 of a third", rest)
        cluster.start(victims)
        agreed("they come back", names)
        cluster.cut(apart=True)
        sides = [[name for name in names if cluster.side(name) == side] for side in (0, 1)]
        agreed("the wire is cut: each side for itself", *sides)
        cluster.cut(apart=False)
        agreed("the wire is back", names)
        growth, deaths = _churn(cluster, churn_s, rng, context)
        if churn_s:
            cluster.start([name for name in names if name not in cluster.running])
            agreed("after the churn", names)
    return Outcome(events, growth, deaths, cpu)


def _at_rest(cluster: Cluster) -> float:
    before = {name: line.taken for name, line in cluster.lines.items()}
    _listen(cluster, time.monotonic() + AT_REST_S)
    used = [
        (after.cpu_s - before[name].cpu_s) / (after.at - before[name].at)
        for name, after in ((name, line.taken) for name, line in cluster.lines.items())
        if after.at > before[name].at
    ]
    return 100 * statistics.median(used) if used else 0.0


def _churn(
    cluster: Cluster, churn_s: float, rng: random.Random, context: Context
) -> tuple[list[Growth], int]:
    """Kill and restart members, and cut the wire now and then, all but a third of them."""
    steady = cluster.names[::3]
    others = [name for name in cluster.names if name not in steady]
    samples: list[dict[str, float]] = []
    deaths = 0
    start = time.monotonic()
    next_cut, apart = start + CUT_EVERY_S, False
    while (passed := time.monotonic() - start) < churn_s:
        context.tell("churn", passed, churn_s)
        name = rng.choice(others)
        if name in cluster.running:
            cluster.kill([name])
            deaths += 1
        else:
            cluster.start([name])
        if time.monotonic() >= next_cut:
            apart = not apart
            cluster.cut(apart)
            next_cut += CUT_FOR_S if apart else CUT_EVERY_S
        _listen(cluster, time.monotonic() + CHURN_EVERY_S)
        if passed >= min(SETTLE_S, churn_s / 4):
            lines = [cluster.lines[member].taken for member in steady]
            samples.append(
                {what: statistics.median(getattr(x, what) for x in lines) for what in GROWTH}
            )
    if apart:
        cluster.cut(apart=False)
    third = max(1, len(samples) // 3)
    return [
        Growth(
            what,
            statistics.mean(sample[what] for sample in samples[:third]),
            statistics.mean(sample[what] for sample in samples[-third:]),
        )
        for what in GROWTH
        if samples
    ], deaths


def _listen(cluster: Cluster, until: float) -> None:
    while (left := until - time.monotonic()) > 0:
        cluster.read(min(left, 0.25))
