"""Plans of agents whose flows are on paths already, beside Crux's and a blank sheet's.

Every case begins with flows on paths that nobody planned for them. Agents plan, carry the plan out,
and plan again until nothing moves. All ends are simulated; a figure is GPU work over that without
contention.
"""

from __future__ import annotations

import argparse
import itertools
import random
import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from benchmarks import goals, options, replan_cases
from benchmarks.context import Context
from benchmarks.record import Cell, Column, Record, Verdict
from benchmarks.small_cases import worst_tenth
from hostcc.schedule.fluid import Cycle, Group, simulate
from hostcc.schedule.paths.isolated import isolated_jobs
from hostcc.schedule.plan import Options, Solution, solve, solve_for_agents
from hostcc.schedule.problem import Floats, Problem
from hostcc.schedule.simulation_rows import reduce_flows

WARMUP_ITERATIONS = 3.0
"""Iterations of the longest job before the window that is measured."""
MAX_JOB_ITERATIONS = 400
"""Jobs times iterations of the longest one that are simulated, but at least three iterations."""
LEAST_OF_BLANK = 0.99
"""Of the blank sheet's work, mean and mean of the worst tenth."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """The fabrics, jobs, starts and cases."""
    for name, least, most, usual in (
        ("--tors", 2, 64, (4,)),
        ("--spines", 2, 64, (2, 3, 4, 8, 32)),
        ("--jobs", 1, 1000, (4, 8, 16, 24, 50, 200)),
    ):
        parser.add_argument(
            name, type=options.wholes(name, least, most), default=usual, metavar="N,N,...",
            help=f"drawn from these (default: {','.join(map(str, usual))})",
        )  # fmt: skip
    parser.add_argument(
        "--starts", type=options.names("--starts", replan_cases.STARTS),
        default=replan_cases.STARTS, metavar="NAME,NAME,...",
        help=f"in turn (default: {','.join(replan_cases.STARTS)})",
    )  # fmt: skip
    options.add_seed(parser, "the cases")
    parser.add_argument(
        "--cases", type=options.whole("--cases", 1, 10_000), default=48, metavar="N",
        help="number of cases (default: %(default)s)",
    )  # fmt: skip


def run(args: argparse.Namespace, context: Context) -> Record:
    """Measure the table."""
    rows: list[dict[str, Cell]] = []
    for number in range(args.cases):
        case = replan_cases.draw(args.seed, number, args.tors, args.spines, args.jobs, args.starts)
        context.tell(f"case {number}", number, args.cases)
        rows.append(measure(args.seed, case))
    return Record(
        benchmark="replan",
        title="GPU work over ideal, planned again until nothing moves",
        parameters={
            "tors": list(args.tors), "spines": list(args.spines), "jobs": list(args.jobs),
            "starts": list(args.starts), "seed": args.seed, "cases": args.cases,
        },
        columns=[
            Column("start", "start"),
            Column("kind", "traffic"),
            *(Column(key, key, digits=0) for key in ("tors", "spines", "jobs")),
            Column("load", "load", digits=2),
            *(Column(key, key) for key in ("present", "agents", "crux")),
            Column("blank", "blank sheet"),
            Column("moves", "moves", digits=0),
            Column("plans", "plans", digits=0),
            Column("seconds", "last plan, ms", digits=0, scale=1e3),
        ],
        rows=rows,
        goals=judge(rows),
        notes=["plans: those that moved a flow; the next one moved none"],
    )  # fmt: skip


def measure(seed: int, case: replan_cases.Case) -> dict[str, Cell]:
    """Return the row of a case."""
    usual = Options()
    view = replan_cases.started(seed, case, usual)
    end = replan_cases.settled(view, usual)
    begun = time.perf_counter()
    solve_for_agents(end.view, usual)
    seconds = time.perf_counter() - begun
    blank = replace(view, flows=tuple(replace(flow, path="") for flow in view.flows))
    found = (
        solve(view, replace(usual, paths="stay")),
        end.solution,
        solve(view, replace(usual, paths="crux")),
        solve_for_agents(blank, usual),
    )
    shares = work_done(found[0].problem, found, seed)
    return {
        "start": case.start, "kind": case.kind, "tors": case.tors, "spines": case.spines,
        "jobs": case.jobs, "load": case.load,
        **dict(zip(("present", "agents", "crux", "blank"), shares.tolist(), strict=True)),
        "moves": end.moves, "plans": end.plans, "seconds": seconds,
    }  # fmt: skip


def work_done(problem: Problem, found: Sequence[Solution], seed: int) -> Floats:
    """Return (N,) the simulated GPU work of solutions, over that without contention."""
    ends = problem.path_start.tolist()
    links = [problem.path_links[first:past].tolist() for first, past in itertools.pairwise(ends)]
    groups = [
        Group(
            reduce_flows(
                problem.job_count,
                problem.flow_job.tolist(),
                problem.flow_bytes.tolist(),
                [links[path] for path in one.decision.routing.tolist()],
                problem.capacity.tolist(),
            ),
            one.level[None, :],
        )
        for one in found
    ]
    alone = isolated_jobs(problem).period
    chance = random.Random(f"hostcc replan {seed} phases")
    phase = np.array([chance.random() for _ in range(problem.job_count)])
    cycle = Cycle(problem.compute, problem.comm_start, -phase * alone)
    longest = float(alone.max())
    window = max(3.0, min(15.0, MAX_JOB_ITERATIONS / problem.job_count)) * longest
    begin = WARMUP_ITERATIONS * longest
    seconds = simulate(cycle, groups, begin, begin + window).compute_seconds
    done = (seconds * problem.work / problem.compute).sum(axis=1) / window
    return np.asarray(done / (problem.work / alone).sum())


def judge(rows: Sequence[dict[str, Cell]]) -> list[Verdict]:
    """As good as Crux's paths and as a blank sheet; every case comes to rest."""
    values = {
        key: np.array([row[key] for row in rows], np.float64)
        for key in ("agents", "crux", "blank", "plans")
    }
    to_blank, to_crux = values["agents"] / values["blank"], values["agents"] / values["crux"]
    figures = (
        ("mean over the blank sheet's", float(to_blank.mean()), LEAST_OF_BLANK),
        ("worst tenth over the blank sheet's", worst_tenth(to_blank), LEAST_OF_BLANK),
        ("mean over Crux's", float(to_crux.mean()), 1.0),
        ("worst case over Crux's", float(to_crux.min()), 1.0),
    )
    made = [
        goals.verdict("agents", f"{words}, at least {least:g}", [value], at_least=least)
        for words, value, least in figures
    ]
    most = float(values["plans"].max())
    limit = replan_cases.MAX_PLANS - 1
    made.append(goals.verdict("agents", "all come to rest", [most], at_most=limit))
    return made
