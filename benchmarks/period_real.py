"""The iteration period of the lab's jobs by the byte meter, compared with their own reports.

A scenario's jobs run in the lab's network; the meter counts on the host of each job's first
rank.  The jobs report the start of each iteration, and the scenario gives their bytes.
"""

from __future__ import annotations

import argparse
import threading
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import msgspec
import numpy as np

import hostcc.measure
from benchmarks import options
from benchmarks.cases import Identity, identity_of
from benchmarks.context import Context
from benchmarks.harness import Case, run_cases
from benchmarks.record import Cell, Column, Record, Verdict, spread
from hostcc.bpf.loader.objects import object_path
from hostcc.lab import phase, scenario, scenario_hosts
from hostcc.lab.dumbbell import Dumbbell
from hostcc.lab.launch import Iteration
from hostcc.lab.scenario import JobSpec, Scenario
from hostcc.lab.variants import resolve
from hostcc.measure.meter_kernel import KernelMeter
from hostcc.measure.period import detect
from hostcc.measure.series import NS, ByteSeries, empty, joined, part
from hostcc.measure.series_file import Meta, Recording, save

READ_S = 0.25
TEN = 10
GOAL = 0.05
"""Jobs that share a link disturb each other: a dirty series."""
SCENARIOS = ("two-jobs", "six-jobs", "rings-incompatible", "ddp")
FIRST, LAST, ALL = "first ten", "last ten", "all"


class DetectedPeriod(msgspec.Struct, frozen=True):
    """One job in one stretch of its iterations."""

    job: str
    stretch: str
    true_s: float
    """Median time from one reported start to the next."""
    found_s: float | None
    """None: called not periodic."""
    sent: float | None
    """Bytes of an iteration, both directions, over those that were exchanged; None likewise."""
    reason: str

    @property
    def right(self) -> bool:
        """Period and bytes within the goal."""
        return (
            self.found_s is not None
            and self.sent is not None
            and abs(self.found_s / self.true_s - 1) <= GOAL
            and abs(self.sent - 1) <= GOAL
        )


class Watcher:
    """A meter that is read in a thread, while the lab has the main one; a context manager."""

    def __init__(self, groups: Mapping[str, Path]) -> None:
        self._meter = KernelMeter()
        self._slots = {name: slot for slot, name in enumerate(groups, start=1)}
        for name, slot in self._slots.items():
            self._meter.attach_cgroup(slot, groups[name])
        self.series = {name: empty(self._meter.ring.bin_ns) for name in groups}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Watcher:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._read()
        self._meter.close()

    def _run(self) -> None:
        while not self._stop.wait(READ_S):
            self._read()

    def _read(self) -> None:
        window = self._meter.read()
        for name, slot in self._slots.items():
            self.series[name] = joined(self.series[name], window.job(slot))


def add_options(parser: argparse.ArgumentParser) -> None:
    """Scenarios, variants, iterations."""
    parser.add_argument(
        "--scenarios", type=options.words("--scenarios"), default=SCENARIOS, metavar="NAME,...",
        help="(default: two-jobs,six-jobs,rings-incompatible,ddp)",
    )  # fmt: skip
    options.add_variants(parser, ("cubic", "hostcc"))
    parser.add_argument(
        "--iterations", type=options.whole("--iterations", TEN + 1, 10_000), default=40,
        metavar="N", help="iterations of every job (default: %(default)s)",
    )  # fmt: skip


def run(args: argparse.Namespace, context: Context) -> Record:
    """Measure the table."""
    cases = [
        Case(
            (name, variant),
            f"cases/{name}-{variant}-{number}",
            f"{name}, {variant}, run {number}",
            partial(_identity, name, variant, args.iterations),
            partial(_measure_named, name, variant, args.iterations, number, context.out),
        )
        for number in range(1, context.runs + 1)
        for name in args.scenarios
        for variant in args.variants
    ]
    measured = run_cases(context, list[DetectedPeriod], cases)
    found = {key: [one for run in runs for one in run] for key, runs in measured.results.items()}
    return Record(
        benchmark="period-real",
        title="iteration period of the lab's jobs, by the byte meter",
        parameters={
            "scenarios": list(args.scenarios), "variants": list(args.variants),
            "iterations": args.iterations, "runs": context.runs,
        },
        columns=[
            Column("scenario", "scenario"),
            Column("variant", "variant"),
            Column("stretch", "of the iterations"),
            Column("right", "right %", digits=0),
            Column("count", "job runs", digits=0),
            Column("period_ms", "period ms", digits=1),
            Column("period", "error %", digits=2),
            Column("bytes", "of the bytes %", digits=2),
        ],
        rows=[
            _row(*case, stretch, [one for one in entries if one.stretch == stretch])
            for case, entries in found.items()
            for stretch in (FIRST, LAST, ALL)
        ],
        goals=[_goal(*case, entries) for case, entries in found.items()],
        notes=["errors: median and range over jobs and runs; right: both within 5 %"],
        failures=measured.failures,
    )  # fmt: skip


def _identity(name: str, variant: str, iterations: int) -> Identity:
    wanted = scenario.load(scenario.find(name))
    what = {"scenario": wanted, "variant": variant, "iterations": iterations}
    code = [*map(Path, hostcc.measure.__path__), object_path("meter")]
    return identity_of(what, programs=True, code=code)


def _measure_named(
    name: str, variant: str, iterations: int, number: int, out: Path | None
) -> list[DetectedPeriod]:
    keep = None if out is None else out / "series" / name
    return measure(scenario.load(scenario.find(name)), variant, iterations, number, keep)


def measure(
    wanted: Scenario, variant: str, iterations: int, number: int, keep: Path | None
) -> list[DetectedPeriod]:
    """One run; series are kept below `keep`.  Raises LabError, BpfError or OSError."""
    control = resolve((variant,), wanted)[0]
    with Dumbbell(wanted.fabric, scenario_hosts.hosts_of(wanted)) as fabric:
        groups = {
            host.owner: fabric.cgroup_of(host)
            for host in fabric.hosts
            if host.rank == 0 and not host.background
        }
        with Watcher(groups) as watcher:
            measured = phase.run(
                fabric,
                phase.PhasePlan(wanted, wanted.job, control, iterations, seed=number),
                lambda _: None,
            )
    found = []
    for job in wanted.job:
        steps = measured.iterations[job.name]
        for stretch, some in (
            (FIRST, steps[: TEN + 1]),
            (LAST, steps[-TEN - 1 :]),
            (ALL, steps),
        ):
            inside = between(watcher.series[job.name], some[0].start, some[-1].start)
            if keep is not None:
                name = f"{job.name}-{variant}-{number}-{stretch.replace(' ', '-')}.npz"
                _save(keep / name, job.name, inside)
            found.append(compare(job, wanted, inside, stretch, some))
    return found


def between(series: ByteSeries, begin_s: float, end_s: float) -> ByteSeries:
    """The bins between two moments, CLOCK_MONOTONIC."""
    first, last = (int((at * NS - series.start_ns) // series.bin_ns) for at in (begin_s, end_s))
    return part(series, first, last)


def compare(
    job: JobSpec, wanted: Scenario, inside: ByteSeries, stretch: str, steps: Sequence[Iteration]
) -> DetectedPeriod:
    """What is found in a stretch of the series, beside what the job says of it."""
    true_s = float(np.median(np.diff([step.start for step in steps])))
    moved = float(inside.total.sum()) / (len(steps) - 1)
    if not job.command and job.pattern == "push":
        moved = float(scenario_hosts.bytes_per_iteration(job, wanted.fabric))
    found = detect(inside)
    sent = found.bytes_per_iteration
    return DetectedPeriod(
        job.name, stretch, true_s, found.period_s, None if sent is None else sent / moved,
        found.reason,
    )  # fmt: skip


def _save(path: Path, job: str, series: ByteSeries) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    save(path, Recording(Meta(job=job, bin_ns=series.bin_ns, start_ns=series.start_ns), series))


def _row(name: str, variant: str, stretch: str, found: Sequence[DetectedPeriod]) -> dict[str, Cell]:
    known = [one for one in found if one.found_s is not None]
    return {
        "scenario": name,
        "variant": variant,
        "stretch": stretch,
        "right": 100 * sum(one.right for one in found) / max(1, len(found)),
        "count": len(found),
        "period_ms": spread([1e3 * one.true_s for one in found]),
        "period": _errors([(one.found_s or 0.0) / one.true_s for one in known]),
        "bytes": _errors([one.sent or 0.0 for one in known]),
    }


def _errors(ratios: Sequence[float]) -> Cell:
    """Per cent away from 1; None when nothing was found."""
    return spread([100 * abs(ratio - 1) for ratio in ratios]) if ratios else None


def _goal(name: str, variant: str, found: Sequence[DetectedPeriod]) -> Verdict:
    right = [100.0 * one.right for one in found]
    measured = spread([float(np.mean(right))])
    met = min(right) == 100.0
    return Verdict(f"{name}, {variant}", "period and bytes within 5 %", measured, int(met), met)
