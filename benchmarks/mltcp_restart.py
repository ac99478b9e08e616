"""Agents that are restarted, or roll back and take over again, beside running jobs.

After some iterations one agent is stopped by SIGTERM and started again, or all are, or all are told
`hostcc rollback` and then `hostcc unfair mltcp`.  Measured is how long it takes until they manage
the same jobs as before, and what the jobs notice: their iterations before, and from 5 s after that
on.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated

import msgspec

from benchmarks import goals, options, phases
from benchmarks.context import Context
from benchmarks.harness import repeated
from benchmarks.headings import Heading, cells, columns
from benchmarks.record import Cell, Column, Record, Verdict
from hostcc.lab import override, runner, scenario
from hostcc.lab.errors import LabError
from hostcc.lab.scenario import ActionSpec, Scenario
from hostcc.lab.variants import resolve

BACK_WITHIN_S = 2.0
SETTLE_S = 5
"""After the jobs are managed again, until their iterations count again."""
MAX_LATER_S = 40
SKIP = 10
"""First iterations, in which the jobs find to each other."""
LIKE_BEFORE = 1.02
"""Mean iteration time over that before."""
ALL = "restart-agent all"
"""Agents that start at once share this machine's processors, so how long they take says little."""
CASES: Mapping[str, tuple[str, ...]] = {
    "one restarted": ("restart-agent h1",),
    "all restarted": (ALL,),
    "all rolled back": ("rollback", "unfair mltcp"),
}


class Outcome(msgspec.Struct, frozen=True):
    """One run."""

    back_s: Annotated[float, Heading("until the same jobs are managed, s")]
    before: Annotated[float, Heading("iteration time / ideal before")]
    settling: Annotated[float, Heading(f"in the {SETTLE_S} s from then on")]
    after: Annotated[float, Heading("later")]
    ratio: Annotated[float, Heading("later / before", digits=3)]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Scenario, flows, iterations."""
    options.add_one_scenario(parser)
    parser.add_argument(
        "--iterations",
        type=options.whole("--iterations", SKIP + 2, options.MAX_ITERATIONS),
        default=80,
        metavar="N",
        help="iterations of every job before that (default: %(default)s)",
    )
    parser.add_argument(
        "--later",
        type=options.whole("--later", 1, MAX_LATER_S),
        default=15,
        metavar="S",
        help=f"seconds that are measured afterwards, the first {SETTLE_S} apart "
        "(default: %(default)s)",
    )


def run(args: argparse.Namespace, context: Context) -> Record:
    """Measure the table."""
    base = override.overridden(
        scenario.load(scenario.find(args.scenario)),
        {"flows": args.flows, "iterations": args.iterations, "alone": 0},
    )
    rows, verdicts, failures = list[dict[str, Cell]](), list[Verdict](), list[str]()
    for name, actions in CASES.items():
        wanted = interrupted(base, actions, args.later)
        measure_it = partial(measure, wanted, context, name)
        found, failed = repeated(context, Outcome, name, {"scenario": wanted}, measure_it)
        failures += failed
        if found:
            rows.append({"case": name, **cells(found)})
            verdicts += judge(name, found)
    return Record(
        benchmark="mltcp-restart",
        title=f"{args.scenario}, {args.flows} flows a job: agents restarted in mid-run",
        parameters={
            "scenario": args.scenario,
            "flows": args.flows,
            "iterations": args.iterations,
            "later": args.later,
            "runs": context.runs,
        },
        columns=[Column("case", "what"), *columns(Outcome)],
        rows=rows,
        goals=verdicts,
        notes=[
            f"means of the jobs' means, without their first {SKIP} iterations",
            "a connection that breaks ends a run",
        ],
        failures=failures,
    )


def interrupted(base: Scenario, actions: Sequence[str], later_s: int) -> Scenario:
    """The scenario with these actions after its iterations, and a wait from their end on."""
    runs: list[str | tuple[str, ...]] = [*actions, ("sleep", str(SETTLE_S + later_s))]
    made = [ActionSpec(run=one, at_iteration=base.iterations) for one in runs]
    return msgspec.structs.replace(base, action=tuple(made))


def measure(wanted: Scenario, context: Context, name: str, number: int) -> Outcome:
    """One run; raises LabError, also when a job's connection breaks or a job is not taken over."""
    found = runner.run(
        runner.Comparison("mltcp-restart", wanted, resolve((goals.SUBJECT,), wanted)),
        lambda what, done, of: context.tell(
            f"{name}: {what} #{number}", number - 1 + min(1.0, done / max(1, of)), context.runs
        ),
    )
    entry = found.variants[0].runs[0]
    if problems := [event.problem for event in entry.events if event.problem]:
        raise LabError("; ".join(problems))
    begun, back = entry.events[0].at_s, entry.events[-1].at_s
    names = ("before", "settling", "after")
    parts = phases.cut(names, [begun, back + SETTLE_S], [back, back + SETTLE_S])
    means = [
        phases.mean(phases.ratios(entry, part, SKIP if part.name == "before" else 0))
        for part in parts
    ]
    before, settling, after = means
    if before is None or settling is None or after is None:
        raise LabError(
            f"--iterations, --later: expected iterations of every job after its first {SKIP}, and "
            f"{SETTLE_S} s after the last action; a job had none"
        )
    return Outcome(back - begun, before, settling, after, after / before)


def judge(name: str, found: Sequence[Outcome]) -> list[Verdict]:
    """Hold the runs against what a restart may cost."""
    later = goals.verdict(
        name,
        f"{SETTLE_S} s later the mean is at most {LIKE_BEFORE:g} of that before",
        [one.ratio for one in found],
        at_most=LIKE_BEFORE,
    )
    back = goals.verdict(
        name,
        f"the same jobs are managed within {BACK_WITHIN_S:g} s",
        [one.back_s for one in found],
        at_most=BACK_WITHIN_S,
    )
    return [later] if ALL in CASES[name] else [back, later]
