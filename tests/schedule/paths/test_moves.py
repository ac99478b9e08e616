"""What moves are worth where jobs share links that they cannot fill, and their hosts' own links."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from hostcc.model import ClusterView, Flow, Path, PathTable
from hostcc.schedule.paths import moves, pair_search, prediction, replanning
from hostcc.schedule.paths.isolated import isolated_jobs
from hostcc.schedule.problem import Problem, build
from tests.schedule.views import job

pytestmark = pytest.mark.unit


COMPUTE = (0.53, 0.9, 0.71, 1.17)
"""Seconds, so that no two iterations are multiples of each other."""


def behind_nics(nic: float, spine: float, jobs: int, spines: int = 2) -> ClusterView:
    """Every job sends from a host of its own; all flows are on the first of the spines."""
    ways = [f"s{number}" for number in range(spines)]
    names = [f"j{number}" for number in range(jobs)]
    return ClusterView(
        jobs=tuple(job(n, compute=c, work=4.0) for n, c in zip(names, COMPUTE, strict=False)),
        flows=tuple(Flow(name, name, name, "there", 0.5 * nic, path="s0") for name in names),
        tables=tuple(
            PathTable(name, "there", tuple(Path(way, (f"nic-{name}", way)) for way in ways))
            for name in names
        ),
        links=(*((f"nic-{name}", nic) for name in names), *((way, spine) for way in ways)),
        digest="d",
    )


def tried(made: Problem) -> tuple[moves.Trials, NDArray[np.bool_]]:
    """All flows on all paths, and which of these they are on."""
    now = moves.occupancy(made, None, made.flow_path)
    found = moves.trials(made, isolated_jobs(made), now, np.arange(made.flow_count), rough=False)
    return found, found.path == made.flow_path[found.flow]


def test_rough_losses_are_the_same_block_by_block(monkeypatch: pytest.MonkeyPatch) -> None:
    made = build(behind_nics(1.0, 1.0, 4, spines=3))
    now = moves.occupancy(made, None, made.flow_path)

    def found() -> list[float]:
        every = np.arange(made.flow_count)
        one = moves.trials(made, isolated_jobs(made), now, every, rough=True)
        return [float(cost) for cost in one.cost]

    whole = found()
    assert len(whole) == 12
    assert len(set(whole)) == 5  # each job loses something else on its path, and nothing elsewhere
    monkeypatch.setattr(moves, "MET_AT_ONCE", 5)
    assert found() == whole


@pytest.mark.parametrize(
    ("spine", "jobs", "meet"),
    [
        (10.0, 2, False),
        (2.0, 2, False),  # both at their fastest just fit
        (2.0, 3, True),
        (1.5, 2, True),
        (1.0, 2, True),
    ],
)
@pytest.mark.parametrize("rough", [False, True])
def test_nothing_is_lost_where_all_find_room(
    spine: float, jobs: int, meet: bool, rough: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prediction, "MAX_EXACT_PAIRS", 0 if rough else 2000)
    made = build(behind_nics(1.0, spine, jobs))
    now = moves.occupancy(made, None, made.flow_path)
    lost = prediction.assess(made, isolated_jobs(made), now.comm, now.job, now.starts, now.seconds)
    assert lost.total == 0 or meet
    found, stays = tried(made)
    assert (found.cost[stays] > 0.01).tolist() == [meet] * jobs
    assert found.cost[~stays].tolist() == [0.0] * jobs


@pytest.mark.parametrize(("spine", "moves_on"), [(10.0, False), (1.0, True)])
def test_who_arrives_makes_nobody_move_where_all_find_room(spine: float, moves_on: bool) -> None:
    view = behind_nics(1.0, spine, 3)
    only = replace(view.tables[2], paths=view.tables[2].paths[:1])
    newest = replace(view.flows[2], path="")
    found = replanning.replan(
        build(replace(view, flows=(*view.flows[:2], newest), tables=(*view.tables[:2], only)))
    )
    assert found.placed.tolist() == [2]
    assert bool(found.moves) == moves_on


def test_a_link_that_one_more_fills_is_not_better() -> None:
    # Two on each spine just fit; whoever moves makes three.
    view = behind_nics(1.0, 2.0, 4)
    flows = tuple(replace(flow, path=f"s{number % 2}") for number, flow in enumerate(view.flows))
    found, stays = tried(build(replace(view, flows=flows)))
    assert found.cost[stays].tolist() == [0.0] * 4
    assert (found.cost[~stays] > 0.01).all()


@pytest.mark.parametrize("spine", [1.0, 1.5, 2.0])
def test_all_routings_at_once_cost_what_each_loses(spine: float) -> None:
    made = build(behind_nics(1.0, spine, 2))
    routings = np.array([[0, 2], [0, 3]])  # together, and apart
    lost = pair_search._usual_losses(made, isolated_jobs(made), routings)
    assert (lost[0] > 0.01) == (spine < 2)
    assert lost[1] == 0


def test_a_link_that_all_paths_have_is_taken_once() -> None:
    # The spines are as fast as the hosts' links: to leave the other job costs nothing there.
    made = build(behind_nics(1.0, 1.0, 2))
    found, stays = tried(made)
    assert (found.cost[stays] > 0.01).all()
    assert found.cost[~stays].tolist() == [0.0, 0.0]
    assert len(replanning.replan(made).moves) == 1
