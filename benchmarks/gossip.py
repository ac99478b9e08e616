"""Gossip in clusters of 10 to 10,000 simulated hosts: rounds, bytes and CPU.

Every host is a real core; the network between them is simulated (gossip_world.py).  A host has
a profile; jobs have eight hosts each.
"""

from __future__ import annotations

import argparse
import gc
import math
from dataclasses import dataclass, field

from benchmarks import options
from benchmarks.context import Context
from benchmarks.gossip_world import FRAME, World
from benchmarks.record import Cell, Column, Record, Spread, Verdict, spread
from hostcc.coord.core.message import Message
from hostcc.coord.core.payloads import (
    FLOWS,
    PATHS,
    PROFILE,
    FlowEntry,
    Flows,
    PathEntry,
    Paths,
    Profile,
)

SIZES = (10, 100, 1000)
MOST_HOSTS = 10_000
JOB_HOSTS = 8
WARM_S = 6.0
STEADY_S = 20.0
ARRIVAL_S = 10.0
DRAIN_S = 8.0
CHANGE_EVERY_S = 600.0
"""Between changes of one host's profile in the steady state: they are held in steps."""
CHANGES = 40
"""Measured for each seed, one a round, each of another host."""
DECODED = 2000
"""Hosts up to which every message is decoded from its bytes again."""
NOTE = (
    f"bytes include {FRAME} per message for what carries it; CPU is of the core with decoding "
    "up to 2,000 hosts, without signatures, which are keyed hashes here; idle: nothing changes; "
    f"steady: each host's profile changes every {CHANGE_EVERY_S:g} s; arrival: {JOB_HOSTS} "
    "hosts start a job with profile, flows and paths"
)


@dataclass
class GossipFigures:
    """One cluster, one seed."""

    rounds: list[float | None]
    """Of each change, until the last host had it; None: somebody never had it."""
    each: list[float]
    """Of each change at each host."""
    idle: float
    """Bytes per host and second."""
    steady: float
    arrival: float
    arrival_rounds: float | None
    cpu: float
    """Seconds of CPU per second and host, in the steady state."""
    tick_us: float
    records: float = field(default=0.0)
    """Records that a host takes per second in the steady state: each is verified once."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Hosts, loss, seeds."""
    parser.add_argument(
        "--hosts",
        type=options.wholes("--hosts", 2, MOST_HOSTS),
        default=SIZES,
        metavar="N,N,...",
        help="cluster sizes (default: 10,100,1000)",
    )
    parser.add_argument(
        "--loss",
        type=options.fraction("--loss", 0.0, 0.9),
        default=0.0,
        metavar="P",
        help="probability of losing each message (default: 0)",
    )
    options.add_seeds(parser, 3)


def run(args: argparse.Namespace, context: Context) -> Record:
    """Every size with every seed."""
    seeds = range(*args.seeds)
    rows: list[dict[str, Cell]] = []
    goals: list[Verdict] = []
    done = 0
    for hosts in args.hosts:
        found = []
        for seed in seeds:
            context.tell(f"{hosts} hosts, seed {seed}", done, len(args.hosts) * len(seeds))
            found.append(measure(hosts, args.loss, seed))
            done += 1
        rows.append(row(hosts, args.loss, found))
        goals += verdicts(hosts, args.loss, found)
    return Record(
        benchmark="gossip",
        title=f"gossip, {args.loss:.0%} of messages lost",
        parameters={"hosts": list(args.hosts), "loss": args.loss, "seeds": list(args.seeds)},
        columns=[
            Column("hosts", "hosts", digits=0),
            Column("p50", "rounds p50", digits=1),
            Column("p99", "rounds p99", digits=1),
            Column("everywhere", "to the last host, most", digits=1),
            Column("idle", "idle B/s", digits=0),
            Column("steady", "steady B/s", digits=0),
            Column("arrival", "arrival B/s", digits=0),
            Column("arrival_rounds", "arrival rounds", digits=1),
            Column("cpu", "CPU %", digits=3, scale=100),
            Column("tick", "tick us", digits=0),
            Column("records", "records/s", digits=2),
        ],
        rows=rows,
        goals=goals,
        notes=[NOTE],
    )


def row(hosts: int, loss: float, found: list[GossipFigures]) -> dict[str, Cell]:
    """Of one size."""
    each = sorted(value for one in found for value in one.each)
    return {
        "hosts": hosts,
        "loss": loss,
        "p50": quantile(each, 0.5),
        "p99": quantile(each, 0.99),
        "everywhere": _last(found).greatest,
        "idle": spread([one.idle for one in found]),
        "steady": spread([one.steady for one in found]),
        "arrival": spread([one.arrival for one in found]),
        "arrival_rounds": spread([one.arrival_rounds for one in found]),
        "cpu": spread([one.cpu for one in found]),
        "tick": spread([one.tick_us for one in found]),
        "records": spread([one.records for one in found]),
    }


def verdicts(hosts: int, loss: float, found: list[GossipFigures]) -> list[Verdict]:
    """The goals, which are for 1,000 hosts, and twice the traffic for more."""
    most_rounds = 10.0 if loss == 0 else 20.0
    last = sorted(math.inf if v is None else v for one in found for v in one.rounds)
    p99 = [quantile(last, 0.99)]
    limit = 125_000.0 * (2 if hosts > 1000 else 1)
    steady = [one.steady for one in found]
    made = [_goal(f"{hosts} hosts", f"steady B/s per host under {limit:g}", steady, limit)]
    if loss <= 0.2:
        text = f"a change is everywhere within {most_rounds:g} rounds (p99 of changes)"
        made.insert(0, _goal(f"{hosts} hosts", text, p99, most_rounds))
    return made


def quantile(ordered: list[float], share: float) -> float:
    """Of sorted values: the smallest that this share does not exceed; nan of none."""
    if not ordered:
        return math.nan
    return ordered[min(len(ordered) - 1, max(0, math.ceil(share * len(ordered)) - 1))]


def measure(hosts: int, loss: float, seed: int) -> GossipFigures:
    """One cluster, from its steady state."""
    gc.collect()
    gc.disable()
    try:
        return _Cluster(hosts, loss, seed).measure()
    finally:
        gc.enable()


class _Cluster:
    def __init__(self, hosts: int, loss: float, seed: int) -> None:
        self.world = World(seed, wire=hosts <= DECODED, timed=True)
        self.names = [f"host-{index:05}" for index in range(hosts)]
        self.seen: dict[tuple[str, str, float], dict[str, float]] = {}
        for name in self.names:
            self.world.add(name)
        for index, name in enumerate(self.names):
            self.publish(name, f"job-{index // JOB_HOSTS}", 1e15)
        self.world.settle()
        self.world.disturb(loss=loss)
        self.world.on_deliver = self.delivered

    def measure(self) -> GossipFigures:
        world, hosts = self.world, len(self.names)
        world.run(WARM_S)
        idle = self.cost(STEADY_S / 2)[0]
        steady, cpu, tick_us, records = self.steady()
        world.run(DRAIN_S)
        changed = world.rng.sample(self.names, min(CHANGES, hosts))
        changes = [self.change(name, number) for number, name in enumerate(changed)]
        world.run(DRAIN_S)
        started, members = self.job()
        arrival = self.cost(ARRIVAL_S)[0] - idle
        everywhere = [self.last(key, started) for key in members]
        arrival_rounds = None if None in everywhere else max(v for v in everywhere if v is not None)
        each = [
            (at - begun) / world.settings.round_s
            for key, begun in changes
            for at in self.seen[key].values()
            if at > begun
        ]
        rounds = [self.last(key, begun) for key, begun in changes]
        return GossipFigures(
            rounds, each, idle, steady, arrival, arrival_rounds, cpu, tick_us, records
        )

    def steady(self) -> tuple[float, float, float, float]:
        """Changes at the usual rate: bytes/s, CPU share, microseconds a round, records/s."""
        per_round = len(self.names) / CHANGE_EVERY_S * self.world.settings.round_s
        rounds = round(STEADY_S / self.world.settings.round_s)
        owed, sent, seconds, taken, made = 0.0, *self.totals(), self.taken(), self.made()
        for number in range(rounds):
            owed += per_round
            while owed >= 1:
                owed -= 1
                self.change(self.world.rng.choice(self.names), 1000 + number)
            self.world.run(self.world.settings.round_s)
        after = self.totals()
        bytes_, cpu = after[0] - sent, after[1] - seconds
        per_s = len(self.names) * STEADY_S
        tick_us = cpu / (self.made() - made) * 1e6
        return bytes_ / per_s, cpu / per_s, tick_us, (self.taken() - taken) / per_s

    def cost(self, seconds: float) -> tuple[float, float]:
        """(bytes, CPU seconds) per host and second of the time that passes."""
        before = self.totals()
        self.world.run(seconds)
        scale = len(self.names) * seconds
        after = self.totals()
        return (after[0] - before[0]) / scale, (after[1] - before[1]) / scale

    def made(self) -> int:
        """Rounds of all hosts so far."""
        return sum(host.rounds for host in self.world.hosts.values())

    def taken(self) -> int:
        """Changes of all stores so far."""
        return sum(host.node.store.revision for host in self.world.hosts.values())

    def totals(self) -> tuple[float, float]:
        """(bytes, CPU seconds) of all hosts so far."""
        hosts = self.world.hosts.values()
        return float(sum(h.sent for h in hosts)), sum(h.seconds for h in hosts)

    def change(self, name: str, number: int) -> tuple[tuple[str, str, float], float]:
        """One host has something new to say about its job."""
        job = f"job-{self.names.index(name) // JOB_HOSTS}"
        key = self.publish(name, job, 1e15 + 1e12 * (number + 1))
        begun = self.world.now
        if number < 1000:
            self.seen[key] = {name: begun}
            self.world.run(self.world.settings.round_s)
        return key, begun

    def job(self) -> tuple[float, list[tuple[str, str, float]]]:
        """A job starts on some hosts."""
        count = min(JOB_HOSTS, len(self.names))
        hosts = self.world.rng.sample(self.names, count)
        keys = []
        for index, name in enumerate(hosts):
            node, after = self.world.hosts[name].node, hosts[(index + 1) % count]
            node.publish(FLOWS, "new", Flows(tuple(_flow(i, after) for i in range(8))))
            node.publish(PATHS, after, Paths(tuple(_path(name, after, i) for i in range(8))))
            key = self.publish(name, "new", 1e15)
            self.seen[key] = {name: self.world.now}
            keys.append(key)
        return self.world.now, keys

    def publish(self, name: str, job: str, work: float) -> tuple[str, str, float]:
        index = self.names.index(name)
        after = self.names[(index + 1) % len(self.names)]
        profile = Profile(1.0, 0.5, work, 8.0, 1.4, 0.4, to=((after, 1e9),))
        self.world.hosts[name].node.publish(PROFILE, job, profile)
        return name, job, work

    def last(self, key: tuple[str, str, float], begun: float) -> float | None:
        """Rounds until every host had it."""
        seen = self.seen[key]
        if len(seen) < len(self.names):
            return None
        return (max(seen.values()) - begun) / self.world.settings.round_s

    def delivered(self, name: str, message: Message, _data: bytes) -> None:
        """Note who has which change."""
        store = self.world.hosts[name].node.store
        for record in message.records:
            held = store.get(record.writer, (record.kind, record.key))
            if held is None:
                continue
            if record.kind == PROFILE and isinstance(held.content, Profile):
                seen = self.seen.get((record.writer, record.key, held.content.work))
                if seen is not None:
                    seen.setdefault(name, self.world.now)


def _flow(index: int, dst: str) -> FlowEntry:
    return FlowEntry(f"f{index}", dst, 1e9, True, "tcp", 40_000 + index, 5201, f"p{index}")


def _path(src: str, dst: str, index: int) -> PathEntry:
    return PathEntry(f"p{index}", (f"{src}-s{index}", f"s{index}-{dst}"), (40_000 + index,))


def _last(found: list[GossipFigures]) -> Spread:
    return spread([value for one in found for value in one.rounds])


def _goal(scope: str, text: str, values: list[float], most: float) -> Verdict:
    measured = spread([value if math.isfinite(value) else None for value in values])
    passing = sum(value <= most for value in values)
    return Verdict(scope, text, measured, passing, passing == len(values))
