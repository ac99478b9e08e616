"""Iteration boundaries that the kernel sees of the lab's jobs, against the jobs' own records.

Agents run as in `hostcc lab run`.  A job reports when each iteration began and ended, the byte
meter shows when it began to send in it, and the kernel's boundary has to be there: once in every
iteration, on every host that sends.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

import hostcc
from benchmarks import options
from benchmarks.boundary_judge import (
    SMALL_BYTES,
    SeenBoundaries,
    ToldTimes,
    compared,
    first_sends,
    sent_per_iteration,
    told,
)
from benchmarks.boundary_watch import BoundaryWatch, SeenStarts
from benchmarks.cases import Identity, identity_of
from benchmarks.context import Context
from benchmarks.goals import verdict
from benchmarks.harness import Case, run_cases
from benchmarks.period_real import Watcher
from benchmarks.record import Column, Record, spread
from hostcc.lab import phase, scenario
from hostcc.lab.dumbbell import Dumbbell
from hostcc.lab.errors import LabError
from hostcc.lab.launch import Iteration
from hostcc.lab.scenario import Scenario
from hostcc.lab.scenario_hosts import Host, hosts_of
from hostcc.lab.variants import resolve
from hostcc.measure.series import NS, ByteSeries

SCENARIOS = (
    "two-jobs",
    "six-jobs",
    "mixed-compatible",
    "rings-incompatible",
    "ddp",
    "ddp-buckets",
    "ddp-overlap",
    "pipelines",
)
WARM_UP = 60
"""Iterations before which the agent need not know a job."""
GOAL_PERCENT, INVENTED_PERCENT = 98.0, 2.0
TOLD_TOLERANCE = 0.02
"""Of the status' counter and mean."""
LEGEND = (
    "seen: iterations with a boundary within 5 % of an iteration's time of its first byte; "
    "invented: boundaries beside these; both of the iterations, mean of the hosts that send; "
    "counted, told: by the agents' status after the warm-up, over the jobs' records"
)


class BoundaryRun(msgspec.Struct, frozen=True):
    """One run of a scenario."""

    first: list[SeenBoundaries]
    """During the warm-up; one for each host that sends."""
    rest: list[SeenBoundaries]
    """After it."""
    told: list[ToldTimes]
    """By the agents of these hosts."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Scenarios, variants, iterations."""
    parser.add_argument(
        "--scenarios", type=options.words("--scenarios"), default=SCENARIOS, metavar="NAME,...",
        help=f"(default: {','.join(SCENARIOS)})",
    )  # fmt: skip
    options.add_variants(parser, ("hostcc",))
    parser.add_argument(
        "--iterations", type=options.whole("--iterations", 2, 10_000), default=100, metavar="N",
        help="iterations of every job after the warm-up (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--warm-up", type=options.whole("--warm-up", 2, 10_000), default=WARM_UP, metavar="N",
        help="iterations in which the agent may learn a job (default: %(default)s)",
    )  # fmt: skip


def run(args: argparse.Namespace, context: Context) -> Record:
    """Measure the table."""
    cases = [
        Case(
            (name, variant),
            f"cases/boundaries-{name}-{variant}-{number}",
            f"{name}, {variant}, run {number}",
            partial(_identity, name, variant, args.iterations, args.warm_up),
            partial(_measure_named, name, variant, args.iterations, args.warm_up, number),
        )
        for number in range(1, context.runs + 1)
        for name in args.scenarios
        for variant in args.variants
    ]
    measured = run_cases(context, BoundaryRun, cases, _short)
    return Record(
        benchmark="boundaries",
        title="iteration boundaries of the kernel, against the jobs' own records",
        parameters={
            "scenarios": list(args.scenarios), "variants": list(args.variants),
            "iterations": args.iterations, "warm_up": args.warm_up, "runs": context.runs,
        },
        columns=[
            Column("scenario", "scenario"),
            Column("variant", "variant"),
            Column("first", "seen in the warm-up %", digits=1),
            Column("rest", "seen %", digits=1),
            Column("worst", "of the worst host %", digits=1),
            Column("invented", "invented %", digits=1),
            Column("late_ms", "late ms", digits=1),
            Column("told", "counted / made"),
            Column("mean", "mean told / true"),
            Column("p99", "p99 told / true"),
        ],
        rows=[_row(*case, runs) for case, runs in measured.results.items()],
        goals=[goal for case, runs in measured.results.items() for goal in _goals(*case, runs)],
        notes=[
            LEGEND,
            *measured.notes,
        ],
        failures=measured.failures,
    )  # fmt: skip


def _identity(name: str, variant: str, iterations: int, warm_up: int) -> Identity:
    wanted = scenario.load(scenario.find(name))
    what = {"scenario": wanted, "variant": variant, "iterations": iterations, "warm_up": warm_up}
    return identity_of(what, code=map(Path, hostcc.__path__))


def _measure_named(
    name: str, variant: str, iterations: int, warm_up: int, number: int
) -> BoundaryRun:
    return measure(scenario.load(scenario.find(name)), variant, iterations, warm_up, number)


def measure(
    wanted: Scenario, variant: str, iterations: int, warm_up: int, number: int
) -> BoundaryRun:
    """One run.  Raises LabError, BpfError or OSError."""
    control = resolve((variant,), wanted)[0]
    with Dumbbell(wanted.fabric, hosts_of(wanted)) as fabric:
        hosts = {host.name: host for host in fabric.hosts if not host.background}
        groups = {name: fabric.cgroup_of(host) for name, host in hosts.items()}
        sockets = {name: fabric.run_dir / name / "control.sock" for name in hosts}
        with Watcher(groups) as meter, BoundaryWatch(sockets) as watch:
            measured = phase.run(
                fabric,
                phase.PhasePlan(wanted, wanted.job, control, warm_up + iterations, seed=number),
                lambda _: None,
            )
    found = BoundaryRun([], [], [])
    for job in wanted.job:
        steps = measured.iterations[job.name]
        for name, host in hosts.items():
            sent = meter.series[name]
            if host.owner == job.name and sent_per_iteration(sent, steps) >= SMALL_BYTES:
                _judge(found, host, steps, warm_up, sent, watch.seen[name])
    if not found.rest:
        raise LabError("no host has sent anything worth an iteration")
    return found


def _judge(
    found: BoundaryRun,
    host: Host,
    steps: Sequence[Iteration],
    warm_up: int,
    sent: ByteSeries,
    seen: SeenStarts,
) -> None:
    """Add what one host's kernel and agent have seen of a job."""
    sends = first_sends(sent, steps)
    begun = sorted(at / NS for at in seen.starts_ns.values())
    for part, into in ((slice(0, warm_up), found.first), (slice(warm_up, None), found.rest)):
        into.append(compared(host.name, begun, steps[part], sends[part]))
    rows = [(at, row) for at, row in seen.rows if at >= steps[warm_up].start]
    if len(rows) > 1:
        found.told.append(told(*rows[0], *rows[-1], steps))


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _row(name: str, variant: str, runs: Sequence[BoundaryRun]) -> dict[str, Any]:
    return {
        "scenario": name,
        "variant": variant,
        "first": spread([_mean([one.seen_percent for one in run.first]) for run in runs]),
        "rest": spread([_seen(run) for run in runs]),
        "worst": spread([min(one.seen_percent for one in run.rest) for run in runs]),
        "invented": spread([_invented(run) for run in runs]),
        "late_ms": spread([_mean([one.late_ms for one in run.rest]) for run in runs]),
        "told": spread([_mean([one.iterations for one in run.told]) for run in runs]),
        "mean": spread([_mean([one.mean for one in run.told]) for run in runs]),
        "p99": spread([_mean([one.p99 for one in run.told]) for run in runs]),
    }


def _seen(run: BoundaryRun) -> float | None:
    return _mean([one.seen_percent for one in run.rest])


def _invented(run: BoundaryRun) -> float | None:
    return _mean([one.invented_percent for one in run.rest])


def _goals(name: str, variant: str, runs: Sequence[BoundaryRun]) -> list[Any]:
    scope = f"{name}, {variant}"
    mean = [_mean([abs(one.mean - 1) for one in run.told if one.mean is not None]) for run in runs]
    count = [_mean([abs(one.iterations - 1) for one in run.told]) for run in runs]
    return [
        verdict(scope, f"seen >= {GOAL_PERCENT:g} %", [_seen(run) for run in runs],
                at_least=GOAL_PERCENT),
        verdict(scope, f"invented <= {INVENTED_PERCENT:g} %", [_invented(run) for run in runs],
                at_most=INVENTED_PERCENT),
        verdict(scope, "count told within 2 %", count, at_most=TOLD_TOLERANCE),
        verdict(scope, "mean told within 2 %", mean, at_most=TOLD_TOLERANCE),
    ]  # fmt: skip


def _short(run: BoundaryRun) -> str:
    return f"seen {_seen(run):.1f} %, invented {_invented(run):.1f} %"
