"""Speed of the compiled simulation beside the scalar one, in turn on the same clusters.

Steady clusters with levels and without, then days of jobs that come and go, in a process of their
own whose memory is measured.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from benchmarks import options
from benchmarks.context import Context
from benchmarks.engine_cases import Case, controller, steady, trace
from benchmarks.record import Cell, Column, Record, Verdict, spread
from hostcc.sim.cluster_simulation import constant
from hostcc.sim.cluster_simulation import simulate as scalar
from hostcc.sim.flowsim.run import simulate
from hostcc.sim.flowsim.workload import Fabric, pack
from hostcc.sim.periodic import Controller

EVENTS_PER_S = 200_000
MEMORY_MB = 500
TWO_WEEKS_S = 240.0
NOTE = (
    "an event is the end of a flow that crosses a contended link, or a step of a job; others on "
    "the machine make a run slower, never faster"
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Days and jobs of the trace, and the seed."""
    parser.add_argument(
        "--days",
        type=options.whole("--days", 1, 31),
        default=14,
        metavar="N",
        help="days of the trace (default: 14)",
    )
    options.add_seed(parser, "the trace")


def run(args: argparse.Namespace, context: Context) -> Record:
    """Time them."""
    rows: list[dict[str, Cell]] = []
    goals: list[Verdict] = []
    cases = (steady(20, 6, 8, 500.0, 5.0), steady(40, 12, 8, 50.0, 0.5))
    for number, case in enumerate(cases):
        for levels, control in (("8 levels", controller), ("one level", constant([]))):
            name = f"{case.name}, {levels}"
            context.tell(name, number, len(cases) + 1)
            rates: list[float | None] = []
            speeds: list[float | None] = []
            ratios: list[float | None] = []
            for _ in range(context.runs):
                events, seconds = _engine(case, control)
                slow = _scalar(case, control)
                rates.append(events / seconds)
                speeds.append(case.seconds / seconds)
                ratios.append(case.seconds / seconds / (case.reference_seconds / slow))
            rows.append(
                {
                    "case": name,
                    "speed": spread(speeds),
                    "events": spread(rates),
                    "ratio": spread(ratios),
                }
            )
            goals.append(_goal(name, "200,000 events/s", rates, lambda v: v >= EVENTS_PER_S))
    context.tell("trace", len(cases), len(cases) + 1)
    rows.append(_trace(args, context, goals))
    return Record(
        benchmark="engine",
        title="the flow-level simulation, one core",
        parameters={"seed": args.seed, "days": args.days, "runs": context.runs},
        columns=[
            Column("case", "case"),
            Column("speed", "times real time", digits=0),
            Column("events", "events/s", digits=0),
            Column("ratio", "times the scalar one", digits=0),
            Column("seconds", "s", digits=1),
            Column("memory", "MB", digits=0),
        ],
        rows=rows,
        goals=goals,
        notes=[NOTE],
    )


def _goal(
    scope: str, goal: str, values: list[float | None], good: Callable[[float], bool]
) -> Verdict:
    measured = spread(values)
    passing = sum(value is not None and good(value) for value in values)
    return Verdict(
        scope, goal, measured, passing, measured.median is not None and good(measured.median)
    )


def _engine(case: Case, control: Controller) -> tuple[int, float]:
    """Return events and seconds of processor time."""
    fabric, work = Fabric.of(case.capacity), pack(case.jobs)
    begun = time.process_time()
    found = simulate(fabric, work, case.seconds, control)
    return found.events, time.process_time() - begun


def _scalar(case: Case, control: Controller) -> float:
    begun = time.process_time()
    scalar(case.jobs, case.capacity, control, 0.0, case.reference_seconds)
    return time.process_time() - begun


def _trace(args: argparse.Namespace, context: Context, goals: list[Verdict]) -> dict[str, Cell]:
    days: int = args.days
    events: list[float | None] = []
    seconds: list[float | None] = []
    memory: list[float | None] = []
    for _ in range(context.runs):
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            count, took, most = pool.submit(trace_once, days, args.seed).result()
        events.append(count / took)
        seconds.append(took)
        memory.append(most)
    name = f"{days} days, {_jobs(days)[0]} jobs, 8 levels"
    limit = TWO_WEEKS_S * days / 14
    goals += [
        _goal(name, f"at most {limit:.0f} s", seconds, lambda value: value <= limit),
        _goal(name, f"under {MEMORY_MB} MB", memory, lambda value: value < MEMORY_MB),
    ]
    speeds = [None if value is None else days * 86400 / value for value in seconds]
    return {
        "case": name,
        "speed": spread(speeds),
        "events": spread(events),
        "seconds": spread(seconds),
        "memory": spread(memory),
    }


def trace_once(days: int, seed: int) -> tuple[int, float, float]:
    """Return events, seconds and megabytes of this process for a trace."""
    case = trace(days, *_jobs(days), seed)
    count, took = _engine(case, controller)
    return count, took, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _jobs(days: int) -> tuple[int, int]:
    """Return jobs, and those of a host or more: as many a day as published."""
    return 5000 * days // 14, 2100 * days // 14
