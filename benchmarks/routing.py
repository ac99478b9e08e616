"""Path assignment against the optimum: the largest link load, and the time to find it.

Beside hostcc: ECMP's hash, the routing paper's greedy, longest first, simulated annealing.  A
ratio is the largest load over the smallest possible.  Where neither a bound nor the solver finds
the smallest one, it is over the best known bound, so that no ratio is too good.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks import options, routing_cases, routing_optimum
from benchmarks.context import Context
from benchmarks.record import Cell, Column, Record, Verdict, spread
from benchmarks.routing_cases import EQUAL, UNEQUAL, Case
from hostcc.errors import InputError
from hostcc.schedule.paths import baselines, greedy, pair_search, replanning, two_layer
from hostcc.schedule.paths import clos as closes
from hostcc.schedule.paths import fabric as fabrics
from hostcc.schedule.paths.fabric import Ints
from hostcc.schedule.problem import Problem

FAILURES = (0, 1, 4, 8)
EXACT = 1.0 + 1e-9
NEAR = 1.01
METHODS = ("hostcc", "ecmp", "greedy", "longest", "annealing")
ANNEALING_STEPS = 10_000


@dataclass(frozen=True)
class Result:
    """One case."""

    case: Case
    ratio: dict[str, float]
    optimum: float
    """The smallest possible peak, or a bound below it."""
    proof: str
    seconds: list[float]


def add_options(parser: argparse.ArgumentParser) -> None:
    """The folder, failures, the solver's time."""
    parser.add_argument(
        "folder",
        type=Path,
        metavar="DIR",
        help="the routing paper's traffic, or a folder above it (data/routing-traffic)",
    )
    parser.add_argument(
        "--failed-spines",
        type=options.wholes("--failed-spines", 0, closes.MAX_SPINES),
        default=FAILURES,
        metavar="N,N,...",
        help="(default: 0,1,4,8)",
    )
    options.add_seed(parser, "the failing spines and of the random cases")
    parser.add_argument("--golden", type=Path, metavar="FILE", help="cases with a known optimum")
    parser.add_argument(
        "--solver-seconds",
        type=options.fraction("--solver-seconds", 0.0, 3600.0),
        default=20.0,
        metavar="T",
        help="time limit for the optimum of one case (default: %(default)g)",
    )


def run(args: argparse.Namespace, context: Context) -> Record:
    """Measure the table."""
    cases = _cases(args)
    results: list[Result] = []
    for done, case in enumerate(cases):
        context.tell(case.name, done, len(cases))
        result = measure(case, runs=context.runs, solver_seconds=args.solver_seconds)
        results.append(result)
        context.say(f"{done + 1}/{len(cases)} {case.name}: {result.ratio['hostcc']:.4f}")
    return Record(
        benchmark="routing",
        title="largest link load over the smallest possible",
        parameters={
            "failed_spines": list(args.failed_spines),
            "seed": args.seed,
            "runs": context.runs,
            "solver_seconds": args.solver_seconds,
        },
        columns=[
            Column("case", "case"),
            Column("demands", "demands"),
            Column("failed", "failed spines", digits=0),
            Column("flows", "flows", digits=0),
            *(Column(method, method) for method in METHODS),
            Column("optimum", "optimum", digits=3),
            Column("proof", "known by"),
            Column("seconds", "time, ms", digits=1, scale=1e3),
        ],
        rows=[row(result) for result in results],
        goals=[*goals(results), *planning(args.seed, context.runs)],
        notes=[
            'a proof of "solver bound" or "bound": the optimum is at least that, ratios at most'
        ],
    )


def row(result: Result) -> dict[str, Cell]:
    """A row of the table."""
    return {
        "case": result.case.name,
        "demands": result.case.demands,
        "failed": result.case.failed,
        "flows": len(result.case.flows.src),
        **result.ratio,
        "optimum": result.optimum,
        "proof": result.proof,
        "seconds": spread(result.seconds),
    }


def measure(case: Case, *, runs: int, solver_seconds: float) -> Result:
    """All methods on one case; hostcc's is timed."""
    seconds, found = [], two_layer.route(case.clos, case.flows)
    for _ in range(runs):
        start = time.perf_counter()
        found = two_layer.route(case.clos, case.flows)
        seconds.append(time.perf_counter() - start)
    least, proof = _optimum(case, found, solver_seconds)
    peaks = {"hostcc": found.peak, **_others(case, least)}
    ratio = {name: value / least if least else 1.0 for name, value in peaks.items()}
    return Result(case, ratio, least, proof, seconds)


def goals(results: Sequence[Result]) -> list[Verdict]:
    """What the paths part of hostcc.schedule is meant to reach."""
    made = []
    equal = [r.ratio["hostcc"] for r in results if r.case.demands == EQUAL]
    other = [r.ratio["hostcc"] for r in results if r.case.demands == UNEQUAL]
    if equal:
        made.append(_goal("equal demands", "largest ratio 1.00", [max(equal)], EXACT))
    if other:
        mean = [statistics.fmean(other)]
        made.append(_goal("unequal demands", f"mean ratio at most {NEAR}", mean, NEAR))
    for count, limit in ((1000, 0.05), (20_000, 1.0)):
        times = [max(r.seconds) for r in results if r.case.name == f"{count} elephants"]
        if times:
            text = f"seconds, under {limit:g}"
            made.append(_goal(f"{count} elephants", text, times, limit))
    return made


def planning(seed: int, runs: int) -> list[Verdict]:
    """Times of the default by jobs: all paths anew, and one job that arrives."""
    jobs = routing_cases.ARRIVAL_JOBS
    problem = routing_cases.arrival(jobs, seed)
    works: tuple[tuple[str, float, Callable[[Problem], object]], ...] = (
        (f"{jobs} jobs, all paths", 1.0, pair_search.choose),
        (f"a job arrives in {jobs}", 0.1, replanning.replan),
    )
    made = []
    for scope, limit, work in works:
        times = []
        for _ in range(runs):
            start = time.perf_counter()
            work(problem)
            times.append(time.perf_counter() - start)
        made.append(_goal(scope, f"seconds, under {limit:g}", times, limit))
    return made


def _goal(scope: str, text: str, values: list[float], limit: float) -> Verdict:
    measured = spread(values)
    passing = sum(value <= limit for value in values)
    return Verdict(scope, text, measured, passing, passing == len(values))


def _optimum(case: Case, found: two_layer.Routing, seconds: float) -> tuple[float, str]:
    if case.optimum is not None:
        return case.optimum, "golden"
    if found.optimal or not case.solvable or seconds == 0:
        return found.bound, "found = bound" if found.optimal else "bound"
    best = routing_optimum.solve(case.clos, case.flows, seconds=seconds)
    if best.exact:
        return best.found, "solver"
    least = closes.attainable(case.clos, case.flows, best.least * (1 - 1e-9))
    if least >= found.peak * (1 - 1e-6):
        return found.peak, "found = bound"
    return least, "solver bound"


def _others(case: Case, target: float) -> dict[str, float]:
    fabric, table = closes.fabric(case.clos, case.flows)
    flows, key = case.flows, case.flows.key
    assert key is not None
    hashed = baselines.ecmp(fabric, table, key)
    start: Callable[[], Ints] = lambda: baselines.anneal(  # noqa: E731
        fabric, table, flows.demand, hashed, target=target, iterations=ANNEALING_STEPS
    )
    spines = {
        "ecmp": hashed,
        "greedy": greedy.listed_order(fabric, table, flows.demand),
        "longest": greedy.longest_first(fabric, table, flows.demand),
        "annealing": start(),
    }
    return {name: _peak(fabric, table, flows.demand, found) for name, found in spines.items()}


def _peak(fabric: fabrics.Fabric, table: Ints, demand: np.ndarray, choice: Ints) -> float:
    return fabrics.peak(fabric, fabrics.loads(fabric, table, demand, choice))


def _cases(args: argparse.Namespace) -> list[Case]:
    folder, golden = _places(args.folder, args.golden)
    found: list[Case] = []
    if golden is not None:
        found += routing_cases.golden(golden)
    found += routing_cases.traffic(folder, args.failed_spines, args.seed)
    found += routing_cases.permutations(args.seed)
    found += routing_cases.uneven(args.seed)
    found += routing_cases.crowds(args.seed)
    return found


def _places(folder: Path, golden: Path | None) -> tuple[Path, Path | None]:
    """Where the traffic and the golden cases are, below what was named."""
    if not folder.is_dir():
        raise InputError(f"{folder}: expected a folder")
    below = [folder, folder / "routing-traffic", folder / "data" / "routing-traffic"]
    where = next((path for path in below if (path / "topology.properties").exists()), None)
    if where is None:
        raise InputError(f"{folder}: expected topology.properties in it, or in routing-traffic")
    if golden is None:
        up = where.resolve().parent  # a relative folder does not name those above it
        above = [folder, folder / "golden", up / "golden", up.parent / "golden"]
        golden = next((p / "paths.json" for p in above if (p / "paths.json").exists()), None)
    return where, golden
