"""Processor time and memory that planning takes of one agent, while jobs arrive and end."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import asdict

from benchmarks import options, plan_cost_whole
from benchmarks.context import Context
from benchmarks.plan_cost_agent import Case, Cost
from benchmarks.plan_cost_world import PACKED, PLACEMENTS
from benchmarks.record import Cell, Column, Record, Spread, Verdict, number, spread
from hostcc.errors import HostccError

MAX_SHARE = 0.02
MAX_RESIDENT_BYTES = 150e6
GOAL_HOSTS = 1_000
"""Hosts up to which the goals are stated."""
RUN_LIMIT_S = 1_800.0
WHOLE = (
    Column("whole", "whole agent, %", digits=2, scale=100),
    Column("whole_memory", "resident, MB", digits=0, scale=1e-6),
)
NOTES = (
    "shares are of one processor, of simulated time; signatures and the network are not in them",
    "a plan is left out where the budget has no time for it; the one before stays in force",
    "of the whole agent: wall time, with signatures and all parts, without the transport's process",
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """The cluster, and what happens in it."""
    whole, fraction = options.whole, options.fraction
    add = parser.add_argument
    add("--hosts", type=whole("--hosts", 16, 20_000), default=1_000, metavar="N",
        help="hosts (default: 1000)")  # fmt: skip
    add("--jobs", type=whole("--jobs", 1, 100_000), default=5_000, metavar="N",
        help="jobs, as far as there is room (default: 5000)")  # fmt: skip
    add("--events-per-s", type=fraction("--events-per-s", 0.01, 100.0), default=1.0, metavar="X",
        help="arrivals and ends, in turn (default: 1)")  # fmt: skip
    add("--placement", type=options.names("--placement", PLACEMENTS), default=(PACKED,),
        metavar="NAMES", help=f"some of {', '.join(PLACEMENTS)} (default: {PACKED})")  # fmt: skip
    add("--seconds", type=fraction("--seconds", 5.0, 3_600.0), default=60.0, metavar="S",
        help="simulated seconds, and of the whole agent (default: 60)")  # fmt: skip
    add("--whole", action="store_true",
        help="also run a whole agent among such hosts, in wall time")  # fmt: skip
    options.add_seed(parser, "the cluster")


def run(args: argparse.Namespace, context: Context) -> Record:
    """Play each placement in a process of its own, `--runs` times."""
    rows: list[dict[str, Cell]] = []
    goals: list[Verdict] = []
    for finished, placement in enumerate(args.placement):
        found, whole = [], []
        for turn in range(context.runs):
            context.tell(placement, finished + turn / context.runs, len(args.placement))
            case = Case(
                args.hosts, args.jobs, placement, args.events_per_s, args.seconds, args.seed + turn
            )
            found.append(measured(case))
            if args.whole:
                whole.append(plan_cost_whole.measured(case))
        share = spread([one.views_share + one.plans_share for one in found])
        memory = spread([one.resident_bytes for one in found])
        rows.append(
            {
                "placement": placement,
                "jobs": found[0].jobs,
                "own": spread([one.own_jobs for one in found]),
                "views": spread([one.views_share for one in found]),
                "plans": spread([one.plans_share for one in found]),
                "made": spread([one.plans for one in found]),
                "wanted": found[0].activations,
                "longest": spread([one.longest_s for one in found]),
                "memory": memory,
            }
        )
        if args.hosts <= GOAL_HOSTS:
            goals += [
                _below(placement, "share of a processor", share, MAX_SHARE),
                _below(placement, "resident bytes", memory, MAX_RESIDENT_BYTES),
            ]
        if whole:
            share = spread([one.share for one in whole])
            memory = spread([one.resident_bytes for one in whole])
            rows[-1] |= {"whole": share, "whole_memory": memory}
        if whole and args.hosts <= GOAL_HOSTS:
            goals += [
                _below(placement, "a whole agent's share", share, MAX_SHARE),
                _below(placement, "a whole agent's resident bytes", memory, MAX_RESIDENT_BYTES),
            ]
    return Record(
        benchmark="plan-cost",
        title="cost of planning for one agent",
        parameters={
            "hosts": args.hosts,
            "jobs": args.jobs,
            "events_per_s": args.events_per_s,
            "seconds": args.seconds,
            "seed": args.seed,
            "whole": args.whole,
            "runs": context.runs,
        },
        columns=[
            Column("placement", "placement"),
            Column("jobs", "jobs", digits=0),
            Column("own", "planned jobs", digits=0),
            Column("views", "records and views, %", digits=2, scale=100),
            Column("plans", "plans, %", digits=2, scale=100),
            Column("made", "plans made", digits=0),
            Column("wanted", "activations", digits=0),
            Column("longest", "longest step, ms", digits=1, scale=1e3),
            Column("memory", "resident, MB", digits=0, scale=1e-6),
            *(WHOLE if args.whole else ()),
        ],
        rows=rows,
        goals=goals,
        notes=list(NOTES),
    )


def measured(case: Case) -> Cost:
    """Play a case in another process. Raises HostccError."""
    command = [sys.executable, "-m", "benchmarks.plan_cost_agent", json.dumps(asdict(case))]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=RUN_LIMIT_S
        )
    except subprocess.TimeoutExpired:
        raise HostccError(f"plan-cost: expected an end within {RUN_LIMIT_S:g} s") from None
    if done.returncode:
        raise HostccError(f"plan-cost: {(done.stderr.strip().splitlines() or ['no output'])[-1]}")
    return Cost(**json.loads(done.stdout))


def _below(placement: str, what: str, found: Spread, most: float) -> Verdict:
    passing = sum(number(value) <= most for value in found.values)
    return Verdict(
        f"{placement}: {what}", f"at most {most:g}", found, passing, number(found.median) <= most
    )
