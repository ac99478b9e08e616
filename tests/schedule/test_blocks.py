"""Large plans are made block by block, and single paths are left out: the same plans result."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest

from benchmarks.plan_cost_agent import Agent
from benchmarks.plan_cost_world import SCATTERED, World
from hostcc.model import ClusterView
from hostcc.schedule import job_pairs, pair_loss
from hostcc.schedule.paths import crux, fabric, free_paths, isolated
from hostcc.schedule.plan import Options, Solution, solve_for_agents
from hostcc.schedule.problem import Problem, build

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
