"""kill -9 of every agent in mid-run: the effect on connections, old and new.

Beside two jobs that send, a third one observes (benchmarks.socket_prober): it holds connections
open, and reads the congestion control of a new socket every ten milliseconds.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, cast

import msgspec

from benchmarks import goals, options, phases, programs
from benchmarks.context import Context
from benchmarks.harness import repeated
from benchmarks.headings import Heading, columns
from benchmarks.record import Column, Record, Spread, Verdict, spread
from benchmarks.socket_prober import PROBE_EVERY_S, Probe, Probes, is_default
from hostcc.lab import override, runner, scenario
from hostcc.lab.results import RunResult
from hostcc.lab.scenario import ActionSpec, JobSpec, Scenario
from hostcc.lab.variants import resolve

WATCHER = "watcher"
DEFAULT_WITHIN_S = 2.0
FREED_WITHIN_S = 20.0


class Outcome(msgspec.Struct, frozen=True):
    """One run."""

    connections: Annotated[int, Heading("connections open at the kill")]
    """Held by the watcher, and the jobs' own."""
    broken: Annotated[int, Heading("connections broken")]
    """Of the watcher's; a job whose connection breaks fails the run."""
    before: Annotated[str, Heading("congestion control of new sockets before")]
    """Congestion control of new sockets before the kill."""
    after: Annotated[str, Heading("and after")]
    """And at the end."""
    default_after_s: Annotated[float | None, Heading("seconds until new sockets get the default")]
    """From the kill to the first new socket with the default; None: never."""
    accepted_after_s: Annotated[
        float | None, Heading("seconds until old listeners' new connections do")
    ]
    """The same for sockets accepted by a listener that is older than the kill."""
    gone_after_s: Annotated[float | None, Heading("seconds until nothing is registered")]
    """From the kill until no agent's congestion control is offered; None: never."""
    left_registered: Annotated[int, Heading("congestion controls left registered")]
    programs_left: Annotated[int, Heading("BPF programs left when the jobs have ended")]
    """BPF programs more than before, once the jobs have ended."""
    mean_before: Annotated[float | None, Heading("iteration time / ideal before")]
    """Iteration time / ideal."""
    mean_after: Annotated[float | None, Heading("iteration time / ideal after")]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Scenario, flows, iterations."""
    options.add_one_scenario(parser)
    parser.add_argument(
        "--iterations",
        type=options.whole("--iterations", 4, options.MAX_ITERATIONS),
        default=60,
        metavar="N",
        help="iterations of every job; the agents die in the middle (default: %(default)s)",
    )


def run(args: argparse.Namespace, context: Context) -> Record:
    """Measure the table."""
    base = override.overridden(
        scenario.load(scenario.find(args.scenario)),
        {"flows": args.flows, "iterations": args.iterations, "alone": 0},
    )
    found, failures = repeated(
        context, Outcome, "kill", {"scenario": base}, lambda number: measure(base, context, number)
    )
    return Record(
        benchmark="mltcp-kill",
        title=f"{args.scenario}, {args.flows} flows a job: every agent killed in mid-run",
        parameters={
            "scenario": args.scenario,
            "flows": args.flows,
            "iterations": args.iterations,
            "runs": context.runs,
        },
        columns=[Column("what", "what"), Column("measured", "measured", digits=3)],
        rows=[
            {"what": column.heading, "measured": over_runs(found, column.key)}
            for column in columns(Outcome)
            if found
        ],
        goals=judge(found) if found else [],
        notes=[
            f"new sockets are looked at every {1e3 * PROBE_EVERY_S:g} ms",
            "ratios are to the computed ideal",
        ],
        failures=failures,
    )


def over_runs(found: Sequence[Outcome], field: str) -> Spread | str:
    """A field over the runs."""
    values = [getattr(outcome, field) for outcome in found]
    if isinstance(values[0], str):
        return ", ".join(sorted(set(values)))
    return spread(cast("list[float | None]", values))


def judge(found: Sequence[Outcome]) -> list[Verdict]:
    """Hold the runs against what a kill must not do."""

    def values(field: str) -> list[float | None]:
        return [getattr(outcome, field) for outcome in found]

    return [
        goals.verdict("kill -9", "no connection breaks", values("broken"), at_most=0),
        goals.verdict(
            "kill -9",
            f"new sockets get the default within {DEFAULT_WITHIN_S:g} s",
            values("default_after_s"),
            at_most=DEFAULT_WITHIN_S,
        ),
        goals.verdict(
            "kill -9",
            f"those accepted by older listeners too, within {DEFAULT_WITHIN_S:g} s",
            values("accepted_after_s"),
            at_most=DEFAULT_WITHIN_S,
        ),
        goals.verdict("kill -9", "nothing stays registered", values("left_registered"), at_most=0),
        goals.verdict("kill -9", "no BPF program stays", values("programs_left"), at_most=0),
    ]


def measure(base: Scenario, context: Context, number: int) -> Outcome:
    """One run; raises LabError, also when a job's connection breaks."""
    before = programs.registered()
    loaded = programs.count()
    with tempfile.TemporaryDirectory(prefix="hostcc-bench-") as directory:
        wanted = watched(base, Path(directory))
        measured = runner.run(
            runner.Comparison("mltcp-kill", wanted, resolve((goals.SUBJECT,), wanted)),
            lambda what, done, of: context.tell(
                f"{what} #{number}", number - 1 + min(1.0, done / max(1, of)), context.runs
            ),
        )
        seen = msgspec.json.decode(Path(directory, "probes.json").read_bytes(), type=Probes)
    entry = measured.variants[0].runs[0]
    killed = entry.events[0].at_s
    own_names = appeared(seen.probes, entry.started_at_s + killed, before)
    default_after, accepted_after, gone_after = latencies(
        seen.probes, entry.started_at_s + killed, own_names
    )
    own = msgspec.structs.replace(entry, jobs=[job for job in entry.jobs if job.name != WATCHER])
    first, second = phases.cut(("before", "after"), [killed])
    return Outcome(
        connections=seen.held + sum(job.flows for job in base.job),
        broken=seen.broken,
        before=_control_before(seen.probes, entry, killed),
        after=seen.probes[-1].control,
        default_after_s=default_after,
        accepted_after_s=accepted_after,
        gone_after_s=gone_after,
        left_registered=_left(lambda: len(programs.registered() & own_names)),
        programs_left=_left(lambda: programs.count() - loaded),
        mean_before=phases.mean(phases.ratios(own, first)),
        mean_after=phases.mean(phases.ratios(own, second)),
    )


def watched(base: Scenario, directory: Path) -> Scenario:
    """The scenario with the watcher and the kill."""
    period_ms = max(job.compute_ms + job.comm_ms for job in base.job)
    watcher = JobSpec(
        name=WATCHER,
        command=(sys.executable, "-m", "benchmarks.socket_prober", str(directory)),
        barrier=True,
        compute_ms=period_ms,
        iterations=base.iterations,
    )
    kill = ActionSpec(run="kill-agent all", at_iteration=max(1, base.iterations // 2))
    return msgspec.structs.replace(base, job=(*base.job, watcher), action=(kill,))


def appeared(probes: Sequence[Probe], killed_s: float, before: frozenset[str]) -> frozenset[str]:
    """Congestion controls that came with this run's agents."""
    names = {name for probe in probes if probe.at_s < killed_s for name in probe.registered}
    return frozenset(names - before)


def latencies(
    probes: Sequence[Probe], killed_s: float, names: frozenset[str]
) -> tuple[float | None, float | None, float | None]:
    """Seconds from the kill to the first probe from which on connecting sockets have the
    default, accepted ones have it, and none of `names` is registered; None: never."""

    def since_kill(good: Sequence[bool]) -> float | None:
        first = None
        for probe, fine in zip(reversed(probes), reversed(good), strict=True):
            if not fine:
                break
            first = probe.at_s
        return None if first is None else max(0.0, first - killed_s)

    return (
        since_kill([is_default(probe.control) for probe in probes]),
        since_kill([is_default(probe.accepted) for probe in probes]),
        since_kill([not names & set(probe.registered) for probe in probes]),
    )


def _left(count: Callable[[], int]) -> int:
    """How many are left; the kernel frees them in its own time, after the sockets."""
    deadline = time.monotonic() + FREED_WITHIN_S
    while (left := count()) > 0 and time.monotonic() < deadline:
        time.sleep(0.1)
    return max(0, left)


def _control_before(probes: Sequence[Probe], entry: RunResult, killed_s: float) -> str:
    """What new sockets got at last before the kill, without the agent's own tag."""
    names = [p.control for p in probes if p.at_s < entry.started_at_s + killed_s and p.control]
    name = names[-1] if names else ""
    return f"{programs.OURS}*_{name.rpartition('_')[2]}" if name.startswith(programs.OURS) else name
