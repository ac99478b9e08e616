"""Components: what the plan of a part says is what the plan of the whole view says of it."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hostcc.model import ClusterView, Flow, JobProfile, Path, PathTable, Plan, SizeClass
from hostcc.schedule import coupling
from hostcc.schedule.plan import Options, Solution, solve_for_agents
from hostcc.schedule.plan_writer import write_plan
from hostcc.schedule.problem import build
from tests.schedule import views

pytestmark = pytest.mark.unit
HOSTS, LINKS = 8, 14
OPTIONS = (
    Options(simulations=0),
    Options(simulations=20),
    Options(simulations=0, order="crux", compression="algorithm1"),
    Options(simulations=0, paths="annealing", most_loss=0.2),
    Options(simulations=0, reserved=(0, 1, 7), fairness=1.0),
)


def view(seed: int) -> ClusterView:
    """Jobs on few hosts, tables over few links, some of which have failed."""
    rng = Random(seed)
    jobs, flows, tables = [], list[Flow](), dict[tuple[str, str], PathTable]()
    for number in range(rng.randint(1, 9)):
        compute = rng.uniform(0.5, 2.0)
        name = f"j{number}"
        jobs.append(JobProfile(name, compute, compute / 2, work=rng.uniform(1, 9) * 1e13, gpus=8.0))
        for flow in range(rng.randint(0, 3)):
            src, dst = (f"h{one}" for one in rng.sample(range(HOSTS), 2))
            size = SizeClass.ELEPHANT if rng.random() < 0.9 else SizeClass.MOUSE
            volume = rng.choice((0.0, 0.1, 0.3, 0.6))
            path = rng.choice(("", "p0", "p1"))
            flows.append(Flow(f"{src}/{name}-{flow}", name, src, dst, volume, size, path=path))
            if rng.random() < 0.9:
                near = rng.randrange(LINKS)
                ways = [
                    tuple(f"l{(near + rng.randrange(3)) % LINKS}" for _ in range(rng.randint(0, 2)))
                    for _ in range(rng.randint(1, 3))
                ]
                paths = (Path(f"p{way}", links) for way, links in enumerate(ways))
                tables[src, dst] = PathTable(src, dst, tuple(paths))
    used = sorted({link for one in tables.values() for path in one.paths for link in path.links})
    links = tuple((link, rng.choice((1.0, 1.0, 2.0, 0.0))) for link in used)
    return ClusterView(tuple(jobs), tuple(flows), tuple(tables.values()), links, digest="d")


def coupled(whole: ClusterView, job: str) -> set[str]:
    """Jobs coupled with one, by trying every pair."""
    tables = {(one.src, one.dst): one for one in whole.tables}
    over: dict[str, set[str]] = {one.job: set() for one in whole.jobs}
    for flow in whole.flows:
        table = tables.get((flow.src, flow.dst))
        if flow.size is SizeClass.ELEPHANT and flow.bytes > 0 and table is not None:
            over[flow.job] |= {link for path in table.paths for link in path.links}
    found = {job}
    while True:
        more = {one for one in over if any(over[one] & over[other] for other in found)}
        if more <= found:
            return found
        found |= more


def part(whole: ClusterView, jobs: set[str]) -> ClusterView:
    """The view of some jobs alone."""
    flows = tuple(flow for flow in whole.flows if flow.job in jobs)
    ends = {(flow.src, flow.dst) for flow in flows}
    tables = tuple(one for one in whole.tables if (one.src, one.dst) in ends)
    used = {link for one in tables for path in one.paths for link in path.links}
    links = tuple(link for link in whole.links if link[0] in used)
    return replace(
        whole,
        jobs=tuple(one for one in whole.jobs if one.job in jobs),
        flows=flows,
        tables=tables,
        links=links,
    )


def said(plan: Plan, flows: set[str], jobs: set[str]) -> tuple[object, ...]:
    """What a plan says of some jobs."""
    return (
        [one for one in plan.jobs if one.job in jobs],
        [one for one in plan.flows if one.flow in flows],
    )


@given(st.integers(0, 10_000), st.sampled_from(OPTIONS))
@example(36, OPTIONS[0])  # two jobs on one table without a link
@settings(max_examples=60, deadline=None)
def test_a_part_is_planned_as_in_the_whole(seed: int, options: Options) -> None:
    whole = view(seed)
    plan = write_plan("d", solve_for_agents(whole, options))
    for job in {one.job for one in whole.jobs}:
        jobs = coupled(whole, job)
        own = part(whole, jobs)
        flows = {flow.id for flow in own.flows}
        alone = write_plan("d", solve_for_agents(own, options))
        assert {one.job for one in alone.jobs} == jobs
        assert said(alone, flows, jobs) == said(plan, flows, jobs)


@given(st.lists(st.integers(0, 10_000), min_size=2, max_size=4), st.sampled_from(OPTIONS))
@settings(max_examples=25, deadline=None)
def test_what_is_known_from_the_view_before_changes_nothing(
    seeds: list[int], options: Options
) -> None:
    before: Solution | None = None
    last: Plan | None = None
    for seed in seeds:
        now = view(seed)
        found = solve_for_agents(now, options, before)
        plan = write_plan("d", found, before, last)
        assert plan == write_plan("d", solve_for_agents(now, options))
        before, last = found, plan


@given(st.integers(0, 10_000))
@settings(max_examples=40, deadline=None)
def test_components_share_no_link_and_leave_nothing_out(seed: int) -> None:
    problem = build(view(seed))
    parts = coupling.components(problem)
    links = [name for one in parts for name in one.problem.link_ids]
    assert len(links) == len(set(links))
    flows = np.concatenate([np.zeros(0, np.int64), *(one.flows for one in parts)])
    assert sorted(flows.tolist()) == list(range(problem.flow_count))
    for one in parts:
        own = one.problem
        assert own.job_ids == tuple(problem.job_ids[job] for job in one.jobs)
        assert own.flow_ids == tuple(problem.flow_ids[flow] for flow in one.flows)
        assert tuple(own.path_ids) == tuple(problem.path_ids.some(one.paths))
        for mine, theirs in enumerate(one.paths.tolist()):
            here, there = (
                [
                    of.link_ids[link]
                    for link in of.path_links[of.path_start[at] :][
                        : of.path_start[at + 1] - of.path_start[at]
                    ]
                ]
                for of, at in ((own, mine), (problem, theirs))
            )
            assert here == there
        assert (one.paths[own.flow_path] == problem.flow_path[one.flows])[own.flow_path >= 0].all()


def test_beside_jobs_without_flows_the_largest_arrays_are_those_of_the_whole() -> None:
    problem = build(
        views.one_link([views.job(name) for name in ("a", "b", "idle")], [1.0, 1.0, 0.0])
    )
    (found,) = coupling.components(problem)
    assert found.problem.job_ids == ("a", "b")
    assert found.problem.path_links is problem.path_links
    assert found.problem.path_ids is problem.path_ids


def test_an_unchanged_component_is_not_planned_again() -> None:
    whole = next(one for one in map(view, range(100)) if len(coupling.components(build(one))) > 2)
    before = solve_for_agents(whole, OPTIONS[0])
    first = before.components[0].problem.job_ids[0]
    jobs = tuple(replace(one, work=2 * one.work) if one.job == first else one for one in whole.jobs)
    after = solve_for_agents(replace(whole, jobs=jobs), OPTIONS[0], before)
    kept = [
        one.decision is other.decision
        for one, other in zip(after.components, before.components, strict=True)
    ]
    assert kept == [False] + [True] * (len(kept) - 1)
