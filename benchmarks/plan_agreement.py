"""How long hosts of one job act by different plans, while jobs come and go.

Every host is a real gossip core with the real scheduler and the agent's own rule of which plan is
in force; the network between them is simulated (gossip_world.py), and so is the time.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field
from random import Random

from benchmarks import options
from benchmarks.context import Context
from benchmarks.gossip import quantile
from benchmarks.gossip_world import Member, World
from benchmarks.record import Cell, Column, Record, Verdict, spread
from hostcc.config.sections.plan import PlanConfig
from hostcc.coord.core.coordinator import Coordinator
from hostcc.coord.core.node import Node
from hostcc.coord.core.payloads import (
    FLOWS,
    LINKS,
    PATHS,
    PROFILE,
    FlowEntry,
    Flows,
    Links,
    PathEntry,
    Paths,
    Profile,
)
from hostcc.coord.core.settings import Settings
from hostcc.coord.plan_difference import digests
from hostcc.daemon.gossip.member_settings import AGREE_S, VIEW_S
from hostcc.daemon.planning import recent_time, rules
from hostcc.daemon.planning.agreement_status import AgreementStatus, PlanResult
from hostcc.daemon.planning.following import WINDOW_AGES, FollowedPlan, step
from hostcc.daemon.planning.planner import Planner
from hostcc.model import ClusterView, Flow, Plan

JOB_HOSTS, RACK_HOSTS, SPINES = 4, 4, 2
RATE = 25e9 / 8
"""Bytes per second of each link."""
WARM_S, DRAIN_S = 15.0, 60.0
LOOK_S = 0.25
"""Between two looks at what is in force; the agent's parts look as often."""
BOUND_S = PlanConfig().max_age_s
WINDOW_S = WINDOW_AGES * BOUND_S
SLACK_S = 2.0
"""For reports on their way, beyond the bound."""
CASES = {
    "one version": (PlanConfig(), 0.0),
    "20 % of messages lost": (PlanConfig(), 0.2),
    "half with order = varys": (PlanConfig(order="varys"), 0.0),
    "half with one level less": (PlanConfig(reserved=(0, 1, 2, 7)), 0.0),
}
"""Case -> options of every second host, and share of messages lost."""
ACTS = ("timeout", "agreed")
NOTE = (
    f"jobs of {JOB_HOSTS} hosts in a ring over {SPINES} spines, {RACK_HOSTS} hosts a rack; jobs "
    "come and go at random; two plans: hosts of a job act by different ones, for the job; until "
    "all act: from an arrival to its first moment in force on all hosts, alike"
)


@dataclass
class AgreementFigures:
    """One case, one seed, for one of ACTS."""

    spans: list[float] = field(default_factory=list)
    """Seconds for which hosts of a job acted by different plans, each time."""
    most: float = 0.0
    """Seconds for which hosts of one job did in the worst WINDOW_S."""
    waits: list[float] = field(default_factory=list)
    """Seconds from a job's arrival until all of its hosts acted by one plan of it."""
    jobs_s: float = 0.0
    """Seconds of all jobs together."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Hosts, time, events, seeds."""
    parser.add_argument(
        "--hosts",
        type=options.whole("--hosts", 8, 1000),
        default=16,
        metavar="N",
        help="hosts (default: 16)",
    )
    parser.add_argument(
        "--seconds",
        type=options.whole("--seconds", 10, 3600),
        default=120,
        metavar="S",
        help="simulated seconds in which jobs come and go (default: 120)",
    )
    parser.add_argument(
        "--every",
        type=options.whole("--every", 1, 600),
        default=10,
        metavar="S",
        help="seconds between arrivals or ends (default: 10)",
    )
    options.add_seeds(parser, 3)


def run(args: argparse.Namespace, context: Context) -> Record:
    """Every case with every seed."""
    rows: list[dict[str, Cell]] = []
    goals: list[Verdict] = []
    seeds = range(*args.seeds)
    for number, case in enumerate(CASES):
        found: dict[str, list[AgreementFigures]] = {act: [] for act in ACTS}
        for seed in seeds:
            done = number * len(seeds) + seed - seeds.start
            context.tell(f"{case}, seed {seed}", done, len(CASES) * len(seeds))
            played = _Cluster(case, args.hosts, seed).play(args.seconds, args.every)
            for act in ACTS:
                found[act].append(played[act])
        for act in ACTS:
            rows.append(row(case, act, found[act]))
            most = [one.most for one in found[act]]
            limit = BOUND_S + SLACK_S
            text = f"two plans for a job at most {limit:g} s in any {WINDOW_S:g}"
            passing = sum(value <= limit for value in most)
            goals.append(
                Verdict(f"{case}, {act}", text, spread(most), passing, passing == len(most))
            )
    return Record(
        benchmark="plan-agreement",
        title="hosts of one job that act by different plans",
        parameters={
            "hosts": args.hosts,
            "seconds": args.seconds,
            "every_s": args.every,
            "seeds": list(args.seeds),
            "max_age_s": BOUND_S,
        },
        columns=[
            Column("case", "case"),
            Column("act_on", "act_on"),
            Column("share", "time with two plans, %", digits=2, scale=100),
            Column("times", "times", digits=0),
            Column("p50", "two plans p50, s", digits=2),
            Column("p99", "p99, s", digits=2),
            Column("longest", "longest, s", digits=2),
            Column("most", f"most in {WINDOW_S:g} s", digits=2),
            Column("wait", "until all act p50, s", digits=2),
            Column("never", "never", digits=0),
        ],
        rows=rows,
        goals=goals,
        notes=[NOTE],
    )


def row(case: str, act: str, found: list[AgreementFigures]) -> dict[str, Cell]:
    """Of all seeds."""
    spans = sorted(span for one in found for span in one.spans)
    waits = sorted(wait for one in found for wait in one.waits)
    some = [wait for wait in waits if wait != float("inf")]
    return {
        "case": case,
        "act_on": act,
        "share": sum(spans) / sum(one.jobs_s for one in found),
        "times": len(spans),
        "p50": quantile(spans, 0.5) if spans else 0.0,
        "p99": quantile(spans, 0.99) if spans else 0.0,
        "longest": max(spans, default=0.0),
        "most": max(one.most for one in found),
        "wait": quantile(some, 0.5) if some else None,
        "never": len(waits) - len(some),
    }


class _Planner:
    """Plans of one set of options, each made once for all hosts that have it."""

    def __init__(self, config: PlanConfig) -> None:
        self.rules = rules.text(rules.rules(config))
        self._planner = Planner(config)
        self._made: dict[str, tuple[PlanResult, tuple[Flow, ...]]] = {}
        self._digests: dict[int, tuple[PlanResult, dict[str, bytes]]] = {}

    def __call__(self, view: ClusterView) -> Plan:
        if view.digest not in self._made:
            made = self._planner.made(self._planner(view))
            assert made is not None
            self._made[view.digest] = made, view.flows
        return self._made[view.digest][0].plan

    def made(self, plan: Plan | None) -> PlanResult | None:
        return None if plan is None else self._made[plan.digest][0]

    def jobs(self, result: PlanResult | None) -> dict[str, bytes]:
        """Digest of what is done for each job by what is in force."""
        if result is None:
            return {}
        if id(result) not in self._digests:
            flows = self._made[result.plan.digest][1]
            self._digests[id(result)] = result, dict(digests(result.plan, flows).jobs)
        return self._digests[id(result)][1]


class _Cluster:
    def __init__(self, case: str, hosts: int, seed: int) -> None:
        other, loss = CASES[case]
        self._kinds = [_Planner(PlanConfig()), _Planner(other)]
        self._rng = Random(seed)
        self._names = [f"h{index:03}" for index in range(hosts)]
        self._index = {name: index for index, name in enumerate(self._names)}
        settings = Settings(view_s=VIEW_S, agree_s=AGREE_S)
        self._world = World(self._rng.getrandbits(64), settings, make=self._member)
        self._world.disturb(loss=loss)
        self._followed = dict.fromkeys(self._names, FollowedPlan())
        self._jobs: dict[str, list[str]] = {}
        self._count = 0
        self._waiting: dict[tuple[str, str], float] = {}
        """(Act, job) -> when it came."""
        self._differ: dict[tuple[str, str], float] = {}
        """(Act, job) -> since when its hosts act by different plans."""
        self._past: dict[tuple[str, str], list[tuple[float, float]]] = {}
        """(Act, job) -> when they did."""
        self._found = {act: AgreementFigures() for act in ACTS}
        for name in self._names:
            node = self._world.add(name)
            node.add_contact(self._names[0])
            node.publish(LINKS, "", Links(tuple((link, RATE) for link in self._links(name))))

    def play(self, seconds: float, every_s: float) -> dict[str, AgreementFigures]:
        """Let jobs come and go for `seconds`, and then none."""
        for _ in range(len(self._names) // JOB_HOSTS):
            self._arrive()
        self._world.run(WARM_S)
        self._waiting = {}
        for at in range(round((seconds + DRAIN_S) / LOOK_S)):
            if at * LOOK_S < seconds and at % round(every_s / LOOK_S) == 0:
                if self._rng.random() < 0.5 and len(self._jobs) > 2:
                    self._end()
                else:
                    self._arrive()
            self._world.run(LOOK_S)
            self._look()
        for act, job in list(self._differ):
            self._close(act, job)
        for act, _ in self._waiting:
            self._found[act].waits.append(float("inf"))
        return self._found

    def _member(self, node: Node, rng: Random) -> Member:
        planner = self._kind(node.name)
        return Coordinator(node, planner, planner.rules, rng)

    def _kind(self, name: str) -> _Planner:
        return self._kinds[self._index[name] % 2]

    def _look(self) -> None:
        now, seen = self._world.now, dict[tuple[str, str], dict[str, bytes]]()
        for name in self._names:
            self._followed[name] = step(self._followed[name], now, self._standing(name), BOUND_S)
            followed, kind = self._followed[name], self._kind(name)
            seen["timeout", name] = kind.jobs(followed.made)
            seen["agreed", name] = kind.jobs(followed.agreed.result)
        for act in ACTS:
            for job, hosts in self._jobs.items():
                does = {seen[act, host].get(job) for host in hosts}
                self._found[act].jobs_s += LOOK_S
                if len(does - {None}) > 1:
                    self._differ.setdefault((act, job), now)
                else:
                    self._close(act, job)
                if len(does) == 1 and None not in does and (act, job) in self._waiting:
                    self._found[act].waits.append(now - self._waiting.pop((act, job)))

    def _close(self, act: str, job: str) -> None:
        since = self._differ.pop((act, job), None)
        if since is not None:
            now, past = self._world.now, self._past.setdefault((act, job), [])
            past.append((since, now))
            found = self._found[act]
            found.spans.append(now - since)
            found.most = max(found.most, recent_time.total(past, now, WINDOW_S))

    def _standing(self, name: str) -> AgreementStatus:
        member = self._world.hosts[name].member
        assert isinstance(member, Coordinator)
        at = member.state
        return AgreementStatus(
            held=at.held,
            active=at.active,
            agreed=member.agreed,
            missing=at.missing,
            number=at.number,
            made=self._kind(name).made(member.plan),
            at=member.ticked,
            differing=member.differing_jobs(),
            plans_agree=member.plans_agree,
        )

    # Jobs.

    def _arrive(self) -> None:
        self._count += 1
        job, hosts = f"j{self._count:03}", self._rng.sample(self._names, JOB_HOSTS)
        work, gigabytes = self._rng.uniform(1e12, 5e13), self._rng.uniform(0.5, 2.0)
        for host, after in zip(hosts, hosts[1:] + hosts[:1], strict=True):
            node, size = self._world.hosts[host].node, gigabytes * 1e9
            node.publish(PROFILE, job, Profile(0.5, 0.25, work, 8.0, to=((after, size),)))
            node.publish(FLOWS, job, Flows((FlowEntry(f"{job}-f", after, size),)))
            node.publish(PATHS, after, Paths(self._paths(host, after)))
        self._jobs[job] = hosts
        for act in ACTS:
            self._waiting[act, job] = self._world.now

    def _end(self) -> None:
        job = self._rng.choice(sorted(self._jobs))
        for host in self._jobs.pop(job):
            node = self._world.hosts[host].node
            node.withdraw(FLOWS, job)
            node.withdraw(PROFILE, job)
        for act in ACTS:
            self._close(act, job)
            self._waiting.pop((act, job), None)

    def _rack(self, name: str) -> str:
        return f"r{self._index[name] // RACK_HOSTS}"

    def _links(self, name: str) -> list[str]:
        rack = self._rack(name)
        shared = [f"{rack}>s{spine}" for spine in range(SPINES)]
        return [f"{name}>", f">{name}", *shared, *(f"s{spine}>{rack}" for spine in range(SPINES))]

    def _paths(self, source: str, target: str) -> tuple[PathEntry, ...]:
        one, two = self._rack(source), self._rack(target)
        if one == two:
            return (PathEntry("local", (f"{source}>", f">{target}")),)
        return tuple(
            PathEntry(
                f"p{spine}", (f"{source}>", f"{one}>s{spine}", f"s{spine}>{two}", f">{target}")
            )
            for spine in range(SPINES)
        )
