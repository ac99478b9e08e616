"""Large plans are made block by block, and single paths are left out: the same plans result."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from benchmarks.plan_cost_agent import Agent
from benchmarks.plan_cost_world import SCATTERED, World
from hostcc.model import ClusterView
from hostcc.schedule import job_pairs, order, pair_loss, plan, utilisation
from hostcc.schedule.paths import crux, fabric, free_paths, isolated
from hostcc.schedule.plan import Options, Solution, solve_for_agents
from hostcc.schedule.problem import Ints, Problem, build

pytestmark = pytest.mark.unit

BLOCKS = [
    (job_pairs, "PAIRS_AT_ONCE"),
    (pair_loss, "ESTIMATED_AT_ONCE"),
    (free_paths, "TABLES_AT_ONCE"),
]


@pytest.fixture(scope="module")
def view() -> ClusterView:
    """Two racks with eight paths between them, and jobs within and across."""
    agent = Agent("host00000", 32)
    agent.receive(World(32, 70, SCATTERED, 2).start())
    agent.look()
    return agent.snapshot.view


def solved(view: ClusterView) -> Solution:
    return solve_for_agents(view, Options(simulations=0))


def dense(problem: Problem) -> fabric.Choices:
    tables = len(problem.table_start) - 1
    return fabric.Choices(fabric.from_problem(problem), np.arange(tables))


@pytest.mark.parametrize(("module", "size"), BLOCKS)
def test_blocks_of_any_size_give_the_same_plan(
    module: ModuleType, size: str, view: ClusterView, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = solved(view)
    assert len(whole.met.one) > 100
    monkeypatch.setattr(module, size, 7)
    found = solved(view)
    assert np.array_equal(found.decision.routing, whole.decision.routing)
    assert np.array_equal(found.decision.rank, whole.decision.rank)
    assert np.array_equal(found.level, whole.level)
    for one, other in zip(vars(found.met).values(), vars(whole.met).values(), strict=True):
        assert np.array_equal(one, other)


def test_of_very_many_pairs_those_with_known_losses_are_kept(
    view: ClusterView, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(order, "MAX_EXACT_LOSSES", 20)
    monkeypatch.setattr(plan, "MAX_EXACT_CUT_PAIRS", 20)
    busy = replace(view, flows=tuple(replace(flow, bytes=20 * flow.bytes) for flow in view.flows))
    found = solved(busy)
    work = found.decision.work
    assert work is not None
    assert work.followed is not None
    assert found.decision.crossed is None
    assert 0 < len(work.met.one) <= len(work.followed.at) <= 20
    every = [*zip(found.met.one.tolist(), found.met.other.tolist(), strict=True)]
    assert len(every) > 100
    assert set(zip(work.met.one.tolist(), work.met.other.tolist(), strict=True)) <= {*every}


def test_nothing_is_kept_of_pairs_that_lose_nothing(
    view: ClusterView, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(order, "MAX_EXACT_LOSSES", 20)
    monkeypatch.setattr(plan, "MAX_EXACT_CUT_PAIRS", 20)
    found = solved(view)
    assert found.decision.work is None
    assert len(found.met.one) > 100


@pytest.mark.parametrize("blocks", [1, 5, utilisation.LINKS_AT_ONCE])
def test_jobs_at_risk_are_found_in_blocks(
    blocks: int, view: ClusterView, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = solved(view)
    risky = utilisation.at_risk(found)
    monkeypatch.setattr(utilisation, "LINKS_AT_ONCE", blocks)
    assert risky.sum() > 0
    assert np.array_equal(utilisation.at_risk(found), risky)
    problem = found.problem
    table, link = utilisation._reachable(found)
    paths = np.repeat(np.arange(len(problem.table_start) - 1), np.diff(problem.table_start))
    of_hop = np.repeat(paths, np.diff(problem.path_start)).tolist()
    pairs = set(zip(of_hop, problem.path_links.tolist(), strict=True))
    assert list(zip(table.tolist(), link.tolist(), strict=True)) == sorted(pairs)


def test_speeds_follow_from_the_losses_of_the_plan(
    view: ClusterView, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(order, "MAX_EXACT_LOSSES", 20)
    found = solved(view)
    speed = utilisation.predicted_speeds(
        replace(found, decision=replace(found.decision, work=None))
    )
    followed = []
    exact = pair_loss.slowdown

    def counted(jobs: pair_loss.IsolatedTimes, upper: Ints, *rest: Any) -> Any:
        followed.append(len(upper))
        return exact(jobs, upper, *rest)

    monkeypatch.setattr(order, "slowdown", counted)
    assert np.array_equal(utilisation.predicted_speeds(found), speed)
    assert followed == [0]


@pytest.mark.parametrize("joint", [0, isolated.MAX_JOINT_FLOWS])
def test_tables_of_one_path_need_no_candidates(
    joint: int, view: ClusterView, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(isolated, "MAX_JOINT_FLOWS", joint)
    problem = build(view)
    few, all_of_them = fabric.choices(problem), dense(problem)
    assert 0 < len(few.fabric.table) < len(all_of_them.fabric.table)
    assert np.array_equal(isolated.spread(problem, few), isolated.spread(problem, all_of_them))
    usual = crux.crux(problem)
    monkeypatch.setattr(fabric, "choices", dense)
    assert np.array_equal(crux.crux(problem), usual)
