"""Jobs on a leaf-spine fabric with random starts: ECMP, each part of hostcc alone, all of it.

A start is a seed: it gives connections their source ports, and so decides which flows ECMP puts
onto one link; every variant gets the same starts.  Iteration times are compared with those under
the best assignment, which is found by trying all (hostcc.lab.assignment) and measured like the
others, with its routes set in the switches.  Details: docs/leafspine.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import msgspec

from benchmarks import goals, options
from benchmarks.cases import Identity, identity_of
from benchmarks.context import Context
from benchmarks.harness import Case, Measured, run_cases
from benchmarks.leafspine_figures import (
    Figures,
    best_seconds,
    figures,
    intensive,
    over_jobs,
    ratios,
)
from benchmarks.record import Cell, Column, Record, Verdict, spread
from hostcc.errors import InputError
from hostcc.lab import runner, scenario
from hostcc.lab.leafspine_scenario import LeafSpineScenario
from hostcc.lab.override import overridden
from hostcc.lab.results import this_machine
from hostcc.lab.scenario import ActionSpec
from hostcc.lab.variants import Variant, resolve

SCENARIOS = ("leafspine-rings", "crux-19", "crux-20")
VARIANTS = ("best", "cubic", "bbr", "mltcp", "paths", "priorities", "paths-marks", "all")
BEST, SUBJECT = "best", "all"
UNDECLARED = "-no-flops"
"""Ends the names of scenarios whose work agents are not told."""
SETTLE_S = 10.0
NEAR = 1.05
"""Times the best assignment's iteration time that a job may take, and times its time alone that
the most intensive may."""
STARVED = 2.0
"""Times the best assignment's iteration time that nobody may take where jobs have to share."""
ALONE_ITERATIONS = 12


def add_options(parser: argparse.ArgumentParser) -> None:
    """Scenarios, variants, seconds."""
    parser.add_argument(
        "--scenarios", type=options.words("--scenarios"), default=SCENARIOS,
        metavar="NAME,NAME,...", help=f"(default: {','.join(SCENARIOS)})",
    )  # fmt: skip
    options.add_variants(parser, VARIANTS)
    parser.add_argument("--no-flops", action="store_true", help="do not tell agents the jobs' work")
    parser.add_argument(
        "--seconds", type=options.fraction("--seconds", 1.0, 3600.0), default=18.0, metavar="S",
        help="duration of each run (default: %(default)g)",
    )  # fmt: skip
    parser.add_argument(
        "--settle", type=options.fraction("--settle", 0.0, 3600.0), default=SETTLE_S, metavar="S",
        help="iterations that begin earlier do not count (default: %(default)g)",
    )  # fmt: skip


def run(args: argparse.Namespace, context: Context) -> Record:
    """Measure the table."""
    if args.settle >= args.seconds:
        raise InputError(f"--settle: expected less than --seconds {args.seconds:g}")
    suffix = UNDECLARED if args.no_flops else ""
    wanted = {
        f"{name}{suffix}": timed(load(name, declare_flops=not args.no_flops), args.seconds)
        for name in args.scenarios
    }
    # Every case once, then every case again: a slow change of the machine falls on all alike.
    lonely = run_cases(
        context,
        TimesAlone,
        [
            Case(
                name,
                f"{name}/cases/alone",
                f"{name}, alone",
                partial(_alone_identity, wanted[name]),
                partial(alone, name, wanted[name]),
            )
            for name in wanted
        ],
    )
    measured = run_cases(
        context,
        Figures,
        [
            Case(
                (name, variant.name),
                f"{name}/cases/{variant.name}-{seed}",
                f"{name}, {variant.name}, start {seed}",
                partial(_identity, wanted[name], variant, seed, args.settle),
                partial(measure, name, wanted[name], variant, seed, args.settle),
            )
            for seed in range(1, context.runs + 1)
            for name in wanted
            for variant in resolve(args.variants, wanted[name])
        ],
    )
    return _record(args, context, wanted, measured, lonely)


def load(name: str, *, declare_flops: bool = True) -> LeafSpineScenario:
    """A scenario on a leaf-spine fabric; raises InputError for any other."""
    found = scenario.load(scenario.find(name))
    if not declare_flops:
        found = overridden(found, {"declare_flops": False})
    if not isinstance(found, LeafSpineScenario):
        raise InputError(f"--scenarios: expected some on a leaf-spine fabric, got {name!r:.40}")
    return found


def timed(base: LeafSpineScenario, seconds: float) -> LeafSpineScenario:
    """The scenario with all jobs told to leave after so long, and none alone before."""
    leave = tuple(ActionSpec(run=f"stop-job {job.name}", at_ms=1e3 * seconds) for job in base.job)
    return msgspec.structs.replace(
        base, alone_iterations=0, action=(*base.action, *leave), iterations=100_000
    )


def measure(
    name: str, wanted: LeafSpineScenario, variant: Variant, seed: int, settle_s: float
) -> Figures:
    """One run; raises LabError."""
    measured = runner.run(runner.Comparison(name, wanted, (variant,), seed=seed), lambda *_: None)
    (entry,) = measured.variants[0].runs
    return figures(wanted, entry, settle_s, this_machine().processors)


class TimesAlone(msgspec.Struct, frozen=True):
    """Median iteration times of jobs that have the fabric to themselves, by job; seconds."""

    seconds: dict[str, float]


def alone(name: str, wanted: LeafSpineScenario) -> TimesAlone:
    """Each job by itself, on the best assignment; raises LabError."""
    quiet = msgspec.structs.replace(
        wanted, alone_iterations=ALONE_ITERATIONS, iterations=1, action=()
    )
    measured = runner.run(runner.Comparison(name, quiet, resolve((BEST,), quiet)), lambda *_: None)
    return TimesAlone(measured.variants[0].alone_s)


def _alone_identity(wanted: LeafSpineScenario) -> Identity:
    return identity_of({"scenario": wanted, "alone": ALONE_ITERATIONS}, programs=False)


def _identity(wanted: LeafSpineScenario, variant: Variant, seed: int, settle_s: float) -> Identity:
    what = {
        "scenario": wanted,
        "control": variant.default_control,
        "agent": variant.agent,
        "pinned": variant.pinned,
        "seed": seed,
        "settle_s": settle_s,
    }
    return identity_of(what, programs=variant.agent is not None)


def is_untold(scenario: LeafSpineScenario) -> bool:
    """Whether agents do not know which job's work is the most intensive."""
    return any(job.flops and not job.declare_flops for job in scenario.job)


def _record(
    args: argparse.Namespace,
    context: Context,
    wanted: Mapping[str, LeafSpineScenario],
    measured: Measured[tuple[str, str], Figures],
    lonely: Measured[str, TimesAlone],
) -> Record:
    found = measured.results
    rows: list[dict[str, Cell]] = []
    verdicts: list[Verdict] = []
    for name in wanted:
        reference = found.get((name, BEST), [])
        best = best_seconds(reference) if reference else {}
        first = intensive(wanted[name])
        by_itself = lonely.results.get(name)
        own = {first: by_itself[0].seconds[first]} if by_itself else {}
        for variant in args.variants:
            runs = found.get((name, variant))
            if runs:
                rows.append(_row(name, variant, runs, best, own))
        subject = found.get((name, SUBJECT))
        if subject and best:
            shared = any(one.meeting for one in reference)
            goes_first = {} if is_untold(wanted[name]) else own
            verdicts += judge(name, subject, best, goes_first, shared=shared)
    notes = [
        f"iterations that begin in the first {args.settle:g} s are left out",
        "ratios are to the median iteration time under the best assignment",
        *measured.notes,
    ]
    return Record(
        benchmark="leafspine",
        title="jobs on a leaf-spine fabric: iteration time / best assignment",
        parameters={
            "scenarios": list(args.scenarios),
            "no_flops": args.no_flops,
            "variants": list(args.variants),
            "seconds": args.seconds,
            "settle_s": args.settle,
            "runs": context.runs,
        },
        columns=[
            Column("scenario", "scenario"),
            Column("variant", "variant"),
            Column("starts", "starts", digits=0),
            Column("mean", "mean"),
            Column("worst", "worst job"),
            Column("intensive", "intensive / alone"),
            Column("utilisation", "utilisation"),
            Column("settled", "settled s", digits=1),
            Column("meeting", "flows that meet", digits=0),
            Column("resets", "resets", digits=0),
            Column("again", "sent again %", digits=2),
            Column("cpu", "agents' CPU %", digits=0),
        ],
        rows=rows,
        goals=verdicts,
        notes=notes,
        failures=[*lonely.failures, *measured.failures],
    )


def _row(
    name: str,
    variant: str,
    runs: Sequence[Figures],
    best: Mapping[str, float],
    own: Mapping[str, float],
) -> dict[str, Cell]:
    mean, worst = over_jobs(runs, best) if best else (None, None)
    return {
        "scenario": name,
        "variant": variant,
        "starts": len(runs),
        "mean": mean,
        "worst": worst,
        "intensive": spread(ratios(runs, own, next(iter(own)))) if own else None,
        "utilisation": spread([one.utilisation for one in runs]),
        "settled": spread([one.settled_after_s for one in runs]),
        "meeting": spread([float(one.meeting) for one in runs]),
        "resets": sum(one.resets for one in runs),
        "again": spread([one.retransmitted_percent for one in runs]),
        "cpu": spread([one.cpu_percent for one in runs]),
    }


def judge(
    name: str,
    runs: Sequence[Figures],
    best: Mapping[str, float],
    own: Mapping[str, float],
    *,
    shared: bool,
) -> list[Verdict]:
    """Hold all of hostcc against what it has to reach; `own`: time alone of the most intensive.

    Where even the best assignment has jobs share links, the most intensive is to be as fast as
    alone, at the others' expense, and none of those is to starve.  `own` is empty where agents
    cannot know which one that is.
    """
    one = [(job, NEAR, "its time alone", own) for job in own]
    others = [(job, STARVED, "the best assignment", best) for job in best if job not in own]
    apart = [(job, NEAR, "the best assignment", best) for job in best]
    made = [
        goals.verdict(name, f"{job} <= {most:g} of {what}", ratios(runs, to, job), at_most=most)
        for job, most, what, to in ([*one, *others] if shared else apart)
    ]
    settled = [one.settled_after_s for one in runs]
    made.append(goals.verdict(name, f"settled within {SETTLE_S:g} s", settled, at_most=SETTLE_S))
    resets = [float(one.resets) for one in runs]
    made.append(goals.verdict(name, "no connection reset", resets, at_most=0))
    return made


def draw(record: Record, out: Path) -> Sequence[Path]:
    """Mean over jobs, a panel per scenario."""
    from benchmarks import bars

    return [
        bars.draw(
            record, out / "leafspine.png", panel=("scenario",), bar="variant", figure="mean",
            label="mean iteration time / best assignment",
        )
    ]  # fmt: skip
