"""The scenario with more jobs than paths and no declared work: what agents plan for it."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from hostcc.lab.assignment import Edge, edges_of, judge
from hostcc.lab.leafspine_scenario import LeafSpineScenario
from hostcc.lab.scenario import find, load
from hostcc.lab.scenario_hosts import goodput_fraction, ideal_seconds
from hostcc.model import ClusterView, Flow, JobProfile, Path, PathTable
from hostcc.schedule.assumed_work import EQUAL, completed
from hostcc.schedule.plan import Options, solve_for_agents

pytestmark = pytest.mark.unit

Spines = list[int]
"""Of each edge."""


@pytest.fixture(scope="module")
def rings() -> LeafSpineScenario:
    found = load(find("eight-rings"))
    assert isinstance(found, LeafSpineScenario)
    return found


def view(scenario: LeafSpineScenario, edges: list[Edge], spines: Spines) -> ClusterView:
    """What agents have measured, with flows on these spines, after work was assumed."""
    fabric = scenario.fabric
    rate = fabric.rate_mbit * 1e6 / 8 * goodput_fraction(fabric)
    jobs = tuple(
        JobProfile(
            job.name, job.compute_ms / 1e3, job.compute_ms / 1e3, work=job.flops, gpus=0.0,
            period_s=ideal_seconds(job, fabric), confidence=1.0,
        )
        for job in scenario.job
    )  # fmt: skip
    flows = tuple(
        Flow(str(index), scenario.job[edge.job].name, edge.src, edge.dst, edge.bytes, path=f"s{on}")
        for index, (edge, on) in enumerate(zip(edges, spines, strict=True))
    )
    tables = tuple(
        PathTable(src, dst, tuple(
            Path(f"s{spine}", (f"l{one}s{spine}", f"s{spine}l{other}"))
            for spine in range(fabric.spines)
        ))
        for (src, dst), (one, other) in {(e.src, e.dst): e.leaves for e in edges}.items()
    )  # fmt: skip
    links = {link for table in tables for path in table.paths for link in path.links}
    names = tuple((link, rate) for link in sorted(links))
    return completed(ClusterView(jobs=jobs, flows=flows, tables=tables, links=names))


def test_more_jobs_than_any_assignment_keeps_apart(rings: LeafSpineScenario) -> None:
    assert len(rings.job) > 6
    assert not any(job.flops for job in rings.job)
    each_way = Counter(edge.leaves for edge in edges_of(rings))
    assert len(each_way) == 2
    assert min(each_way.values()) >= 2 * rings.fabric.spines


@pytest.mark.parametrize("seed", range(6))
def test_agents_share_every_link_evenly_wherever_a_hash_has_put_the_flows(
    rings: LeafSpineScenario, seed: int
) -> None:
    edges, chance = edges_of(rings), random.Random(seed)
    present = [chance.randrange(rings.fabric.spines) for _ in edges]
    found = solve_for_agents(view(rings, edges, present), Options())
    problem = found.problem
    assert set(problem.assumed) == {EQUAL}
    paths = [problem.path_ids[path] for path in found.decision.routing.tolist()]
    on = {int(flow): int(path[1:]) for flow, path in zip(problem.flow_ids, paths, strict=True)}
    planned = [on[index] for index in range(len(edges))]
    # Two long and two short rings on each link.
    kinds = Counter(
        (edge.leaves, spine, rings.job[edge.job].name.split("-")[0])
        for edge, spine in zip(edges, planned, strict=True)
    )
    assert set(kinds.values()) == {2}
    # The short ones serve more work by a second of traffic.
    level = dict(zip(problem.job_ids, found.level.tolist(), strict=True))
    short = [job.name for job in rings.job if job.name.startswith("short")]
    assert max(level[name] for name in short) < min(level[x] for x in level if x not in short)
    # Judged by another simulation, all jobs on one level.
    value, before = (judge(rings, edges, some)[0] for some in (planned, present))
    assert value >= before - 0.01
