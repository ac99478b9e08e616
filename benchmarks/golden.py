"""Stored cases with known optima: schedules, level assignments, paths.

A folder holds JSON files of cases.  The keys of a case give its kind: `jobs` and `flows` are
schedules (simulated, and ordered by hostcc), `edges` and `K` maximum cuts, `commodities` paths on
a two-layer Clos.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta, Struct

from benchmarks.context import Context
from benchmarks.record import Cell, Column, Record, Verdict, spread
from hostcc.errors import InputError
from hostcc.model import ClusterView, Flow, JobProfile, PathTable
from hostcc.model import Path as Route
from hostcc.schedule import kcut, simulated_search
from hostcc.schedule.components import SmallProblem
from hostcc.schedule.contention_graph import ContentionGraph
from hostcc.schedule.fluid import Cycle, Group, simulate
from hostcc.schedule.oracle import Oracle
from hostcc.schedule.paths import clos, two_layer
from hostcc.schedule.problem import Floats, Ints, build
from hostcc.sim.cluster_simulation import constant
from hostcc.sim.flowsim import run as flowsim
from hostcc.sim.flowsim.run import Options
from hostcc.sim.flowsim.workload import Fabric, pack
from hostcc.sim.periodic import SimFlow, SimJob
from hostcc.system import input_file
from hostcc.system.validate import UNDECODABLE

NOTE = "found: GPU utilisation, weight of the cut or largest load"
TOLERANCE = 1e-6
MOST_BYTES = 64 << 20
MOST_JOBS = 8
BUDGET = 5000
Amount = Annotated[float, Meta(ge=0, le=1e30)]
Time = Annotated[float, Meta(ge=-1e9, le=1e9)]
Index = Annotated[int, Meta(ge=0, le=4095)]


class JobCase(Struct):
    """One job of a schedule."""

    gpus: Amount
    W: Amount
    compute: Amount
    comm_start_after: Amount
    start: Time


class FlowCase(Struct):
    """One flow of a schedule."""

    job: Index
    bytes: Amount
    links: list[str]


class Expected(Struct):
    """Exact results of one assignment of levels."""

    levels: list[Index]
    gpu_utilisation: float
    compute_seconds: list[float]


class ScheduleCase(Struct):
    """A schedule, with the best order by enumeration."""

    name: str
    links: dict[str, Annotated[float, Meta(gt=0, le=1e30)]]
    jobs: Annotated[list[JobCase], Meta(min_length=1, max_length=MOST_JOBS)]
    flows: list[FlowCase]
    T0: Time
    T: Time
    optimal_over_unique_orders: Expected
    by_intensity: Expected | None = None
    all_equal_level: Expected | None = None
    worst_order: Expected | None = None
    named: dict[str, Expected] = {}
    all_orders: dict[str, float] = {}


class CutCase(Struct):
    """A contention graph, with its maximum K-cut."""

    name: str
    n: Annotated[int, Meta(ge=0, le=100_000)]
    K: Annotated[int, Meta(ge=1, le=4096)]
    edges: list[tuple[Index, Index, Amount]]
    optimal_cut: float
    level_min: list[int] | None = None


class PathCase(Struct):
    """Commodities on a Clos, with the smallest largest load."""

    name: str
    tors: Annotated[int, Meta(ge=1, le=4096)]
    spines: Annotated[int, Meta(ge=1, le=4096)]
    commodities: list[tuple[Index, Index, Amount]]
    optimal_max_load: float


def add_options(parser: argparse.ArgumentParser) -> None:
    """The folder."""
    parser.add_argument("folder", type=Path, metavar="DIR", help="JSON files of cases")


def run(args: argparse.Namespace, context: Context) -> Record:
    """Every case of every file."""
    files = sorted(args.folder.glob("*.json"))
    if not files:
        raise InputError(f"{args.folder}: expected a folder with .json files of cases")
    rows: list[dict[str, Cell]] = []
    for number, path in enumerate(files):
        for where, raw in _cases(path):
            context.tell(where, number, len(files))
            rows.append({"file": path.name, **judge(raw, where)})
    met = [row for row in rows if row["verdict"] == "optimal"]
    share = len(met) / len(rows) if rows else 0.0
    all_met = share == 1
    goal = Verdict("all", "share of cases at the optimum", spread([share]), int(all_met), all_met)
    return Record(
        benchmark="golden",
        title="stored cases: hostcc's result and the optimum",
        parameters={"folder": str(args.folder), "tolerance": TOLERANCE},
        columns=[
            Column("file", "file"),
            Column("case", "case"),
            Column("found", "found", digits=9),
            Column("optimal", "optimal", digits=9),
            Column("error", "off the exact values", digits=9),
            Column("seconds", "ms", digits=2, scale=1e3),
            Column("verdict", "verdict"),
        ],
        rows=rows,
        goals=[goal],
        notes=[NOTE],
    )


def _cases(path: Path) -> list[tuple[str, msgspec.Raw]]:
    data = input_file.read(path, MOST_BYTES)
    try:
        found = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
        if "cases" not in found:
            raise InputError(f"{path}: cases: expected a list of cases, got none")
        cases = msgspec.json.decode(found["cases"], type=list[msgspec.Raw])
    except UNDECODABLE as error:
        raise InputError(f"{path}: cases: expected a list of cases: {error}") from error
    return [(f"{path}: cases[{index}]", raw) for index, raw in enumerate(cases)]


def judge(raw: msgspec.Raw, where: str) -> dict[str, Cell]:
    """One case as a row.  Raises InputError."""
    kinds: list[tuple[str, type[Struct], Callable[..., dict[str, Cell]]]] = [
        ("flows", ScheduleCase, schedule),
        ("edges", CutCase, cut),
        ("commodities", PathCase, paths),
    ]
    try:
        keys = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
        for key, kind, solve in kinds:
            if key in keys:
                return solve(msgspec.json.decode(raw, type=kind))
    except UNDECODABLE as error:
        raise InputError(f"{where}: {error}") from error
    except (IndexError, KeyError) as error:
        raise InputError(f"{where}: expected known jobs and links, got {error}") from error
    except (ValueError, OverflowError) as error:  # lists of other lengths, endless numbers
        raise InputError(f"{where}: expected figures that go together: {error}") from error
    raise InputError(f"{where}: expected flows, edges or commodities")


def schedule(case: ScheduleCase) -> dict[str, Cell]:
    """All stored assignments simulated, and the order that hostcc chooses."""
    problem = build(_view(case))
    small = SmallProblem(problem)
    start = np.array([job.start for job in case.jobs])
    cycle = Cycle(problem.compute, problem.comm_start, start)
    gpus = np.array([job.gpus for job in case.jobs])
    window = case.T0, case.T
    error = _simulation_error(case, small, cycle, gpus)
    begun = time.perf_counter()
    oracle = Oracle(small, cycle, gpus / gpus.sum(), window)
    worth = gpus * np.maximum(problem.compute, 1e-9)
    chosen = simulated_search.search(small, oracle, worth, len(case.jobs), BUDGET)
    seconds = time.perf_counter() - begun
    layout = small.layout(tuple(chosen.routing.tolist()))
    found = sum(
        oracle.value(part, chosen.level[list(part.members)].tolist()) for part in layout.components
    )
    best = case.optimal_over_unique_orders.gpu_utilisation
    good = found >= best - TOLERANCE and error <= TOLERANCE
    return _row(case.name, found, best, error, seconds, good)


def _simulation_error(case: ScheduleCase, small: SmallProblem, cycle: Cycle, gpus: Floats) -> float:
    named = [case.optimal_over_unique_orders, case.by_intensity, case.all_equal_level]
    stored = [one for one in (*named, case.worst_order, *case.named.values()) if one]
    orders = [[int(level) for level in key.split(",")] for key in case.all_orders]
    levels = np.array([one.levels for one in stored] + orders, np.int64)
    layout = small.layout(tuple(choice[0] for choice in small.choices))
    seconds = np.zeros((len(levels), len(case.jobs)))
    for part in layout.components:
        members = np.array(part.members)
        group = Group(small.rows(part), levels[:, members], members)
        seconds += simulate(cycle, [group], case.T0, case.T).compute_seconds
    used = seconds @ gpus / (gpus.sum() * (case.T - case.T0))
    wanted = [one.gpu_utilisation for one in stored] + list(case.all_orders.values())
    exact = np.array([one.compute_seconds for one in stored])
    worst = np.abs(seconds[: len(stored)] - exact).max(initial=0.0)
    worst = max(worst, np.abs(used - np.array(wanted)).max(initial=0.0))
    events = _event_driven(case, levels)
    return float(max(worst, np.abs(seconds - events).max(initial=0.0)))


def _event_driven(case: ScheduleCase, levels: Ints) -> Floats:
    """Computing seconds (V, J) of assignments of levels (V, J) in the event-driven simulation."""
    names = list(case.links)
    jobs = [
        SimJob(
            job.compute,
            job.comm_start_after,
            tuple(
                SimFlow(flow.bytes, tuple(names.index(link) for link in flow.links))
                for flow in case.flows
                if flow.job == index
            ),
            job.start,
        )
        for index, job in enumerate(case.jobs)
    ]
    work, fabric = pack(jobs), Fabric.of(list(case.links.values()))
    options = Options(start=case.T0)
    found = [
        flowsim.simulate(fabric, work, case.T, constant(each), options).compute_seconds
        for each in levels.tolist()
    ]
    return np.array(found).reshape(levels.shape)


def _view(case: ScheduleCase) -> ClusterView:
    jobs = [
        JobProfile(f"{index:03}", job.compute, job.comm_start_after, job.W, job.gpus)
        for index, job in enumerate(case.jobs)
    ]
    flows, tables = [], []
    for index, flow in enumerate(case.flows):
        end = f"{index:06}"
        flows.append(Flow(end, f"{flow.job:03}", end, "", flow.bytes))
        tables.append(PathTable(end, "", (Route("", tuple(flow.links)),)))
    return ClusterView(tuple(jobs), tuple(flows), tuple(tables), tuple(case.links.items()))


def cut(case: CutCase) -> dict[str, Cell]:
    """The exact K-cut."""
    edges = np.array(case.edges, np.float64).reshape(-1, 3)
    first, second = edges[:, 0].astype(np.int64), edges[:, 1].astype(np.int64)
    if edges.size and not (min(first.min(), second.min()) >= 0 and edges[:, :2].max() < case.n):
        raise KeyError("an edge of a job that does not exist")
    begun = time.perf_counter()
    levels = kcut.exact(ContentionGraph.of(case.n, first, second, edges[:, 2]), case.K)
    seconds = time.perf_counter() - begun
    found = float(edges[levels[first] < levels[second], 2].sum())
    error = 0.0
    if case.level_min is not None:
        error = float(np.abs(levels - np.array(case.level_min, np.int64)).max(initial=0))
    near = TOLERANCE * max(1.0, abs(case.optimal_cut))
    good = abs(found - case.optimal_cut) <= near and error == 0
    return _row(case.name, found, case.optimal_cut, error, seconds, good)


def paths(case: PathCase) -> dict[str, Cell]:
    """Path choice on a Clos with links of 1."""
    table = np.array(case.commodities, np.float64).reshape(-1, 3)
    ends = table[:, :2].astype(np.int64)
    if ends.size and ends.max() >= case.tors:
        raise KeyError("a ToR that does not exist")
    ones = np.ones((case.tors, case.spines))
    begun = time.perf_counter()
    found = two_layer.route(clos.make(ones, ones), clos.Flows(ends[:, 0], ends[:, 1], table[:, 2]))
    seconds = time.perf_counter() - begun
    good = found.peak <= case.optimal_max_load * (1 + TOLERANCE)
    error = max(0.0, found.bound - case.optimal_max_load)
    return _row(case.name, found.peak, case.optimal_max_load, error, seconds, good)


def _row(
    name: str, found: float, optimal: float, error: float, seconds: float, good: bool
) -> dict[str, Cell]:
    return {
        "case": name,
        "found": found,
        "optimal": optimal,
        "error": error,
        "seconds": seconds,
        "verdict": "optimal" if good else "NOT optimal",
    }
