"""Time of a plan on one core: small and large clusters, and the arrival of one job.

Views are generated: jobs of random periods, flows between random ToRs of a two-layer Clos, all
spines as paths.  The time is that of an agent from the view to the plan; for an arrival, with
reuse of the plan of the view before.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import product

from benchmarks import options
from benchmarks.context import Context
from benchmarks.record import Cell, Column, Record, Verdict, spread
from hostcc.model import ClusterView, Flow, JobProfile, Path, PathTable
from hostcc.schedule.plan import Options, solve_for_agents
from hostcc.schedule.plan_writer import write_plan
from hostcc.system import malloc

NOTE = "the goal counts the median; others on the machine make a run slower, never faster"


@dataclass(frozen=True)
class Size:
    """One cluster."""

    jobs: int
    flows: int
    tors: int
    spines: int
    limit: float
    """Seconds that a plan may take."""


SIZES = (
    Size(100, 1000, 16, 8, 0.05),
    Size(100, 1000, 64, 32, 0.05),
    Size(5000, 20_000, 64, 32, 1.0),
    Size(5000, 20_000, 128, 32, 1.0),
)
ARRIVAL_LIMIT = 0.1
"""Seconds, for one job that arrives."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """The seed."""
    options.add_seed(parser, "the views")


def run(args: argparse.Namespace, context: Context) -> Record:
    """Time them."""
    rows: list[dict[str, Cell]] = []
    goals: list[Verdict] = []
    usual = Options()
    malloc.set_trim_threshold()
    for number, size in enumerate(SIZES):
        name = f"{size.jobs} jobs, {size.flows} flows, {size.tors} x {size.spines}"
        context.tell(name, number, len(SIZES))
        fresh = clos_view(size.jobs, size.flows, size.tors, size.spines, args.seed)
        on = {one.flow: one.path for one in write_plan("", solve_for_agents(fresh, usual)).flows}
        newest = fresh.jobs[-1].job
        arrived = with_paths(fresh, on, newest)
        earlier = without(with_paths(fresh, on), newest)
        before = solve_for_agents(earlier, usual)
        last = write_plan(earlier.digest, before)
        for what, view, past, limit in (
            ("no path is known", fresh, (None, None), size.limit),
            ("all paths are known", with_paths(fresh, on), (None, None), size.limit),
            ("one job arrives", arrived, (before, last), ARRIVAL_LIMIT),
        ):
            times: list[float | None] = []
            for _ in range(context.runs):
                begun = time.perf_counter()
                with malloc.gc_paused():
                    write_plan(view.digest, solve_for_agents(view, usual, past[0]), *past)
                times.append(time.perf_counter() - begun)
            measured = spread(times)
            passing = sum(value is not None and value <= limit for value in times)
            met = measured.median is not None and measured.median <= limit
            rows.append({"view": name, "what": what, "seconds": measured, "limit": limit})
            goals.append(Verdict(f"{name}: {what}", f"under {limit:g} s", measured, passing, met))
    return Record(
        benchmark="plan-time",
        title="time of a plan, one core",
        parameters={"seed": args.seed, "runs": context.runs},
        columns=[
            Column("view", "view"),
            Column("what", "what"),
            Column("seconds", "time, ms", digits=0, scale=1e3),
            Column("limit", "goal, ms", digits=0, scale=1e3),
        ],
        rows=rows,
        goals=goals,
        notes=[NOTE],
    )


def clos_view(jobs: int, flows: int, tors: int, spines: int, seed: int) -> ClusterView:
    """Jobs that send for 2 to 10 % of their computation, flows between random ToRs."""
    rng = random.Random(f"hostcc plan-time {seed} {jobs} {tors}")
    tables = tuple(
        PathTable(
            f"t{a:03}",
            f"t{b:03}",
            tuple(
                Path(f"s{s:03}", (f"t{a:03}>s{s:03}", f"s{s:03}>t{b:03}")) for s in range(spines)
            ),
        )
        for a, b in product(range(tors), repeat=2)
        if a != b
    )
    links = tuple(
        (link, 1.0)
        for tor, spine in product(range(tors), range(spines))
        for link in (f"t{tor:03}>s{spine:03}", f"s{spine:03}>t{tor:03}")
    )
    profiles, made = [], []
    each = flows // jobs
    for index in range(jobs):
        name = f"job{index:05}"
        compute = rng.uniform(0.4, 2.0)
        comm = compute * rng.uniform(0.02, 0.1)
        start = compute * rng.choice((0.25, 0.5, 0.75, 1.0))
        period = max(compute, start + comm)
        profiles.append(
            JobProfile(
                name,
                compute,
                start,
                work=8 * compute,
                gpus=8.0,
                period_s=period,
                phase_s=rng.random() * period,
            )
        )
        for number in range(each):
            src, dst = rng.sample(range(tors), 2)
            made.append(Flow(f"{name}-{number}", name, f"t{src:03}", f"t{dst:03}", comm))
    return ClusterView(tuple(profiles), tuple(made), tables, links, digest="generated")


def with_paths(view: ClusterView, on: Mapping[str, str], newest: str = "") -> ClusterView:
    """The view when the flows are on the paths `on`, but for those of the job `newest`."""
    flows = tuple(
        flow if flow.job == newest else replace(flow, path=on[flow.id]) for flow in view.flows
    )
    return replace(view, flows=flows)


def without(view: ClusterView, job: str) -> ClusterView:
    """The view before a job arrived, of other objects but for its tables."""
    return replace(
        view,
        jobs=tuple(replace(one) for one in view.jobs if one.job != job),
        flows=tuple(replace(flow) for flow in view.flows if flow.job != job),
    )
