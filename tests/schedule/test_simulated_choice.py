"""The choice between routings by simulation, and plans of views that change under the agents."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest

from hostcc.model import ClusterView
from hostcc.schedule import simulated_choice
from hostcc.schedule.plan import Options, Solution, solve, solve_for_agents
from hostcc.schedule.problem import build
from tests.schedule.paths import problems

pytestmark = pytest.mark.unit

NEVER = Options(simulations=0)
"""Predictions decide."""


def crowd(jobs: int, seed: int, *, spines: int = 3, dead: tuple[str, ...] = ()) -> ClusterView:
    """Jobs that overload a fabric, all on the first spine."""
    chance = Random(seed)
    made = []
    for _ in range(jobs):
        a, b = chance.sample(range(3), 2)
        size = chance.uniform(0.2, 0.6)
        made.append(
            {
                "compute": chance.uniform(0.6, 1.2),
                "work": chance.uniform(1, 4),
                "flows": [(a, b, size, "s0"), (b, a, size, "s0")],
            }
        )
    return problems.view(made, spines=spines, dead=dead)


def after(view: ClusterView, found: Solution) -> ClusterView:
    """The view once agents have followed a solution."""
    paths = found.problem.path_ids.some(found.decision.routing)
    on = dict(zip(found.problem.flow_ids, paths, strict=True))
    flows = tuple(replace(flow, path=on.get(flow.id, flow.path)) for flow in view.flows)
    return replace(view, flows=flows)


def moved(view: ClusterView, options: Options) -> tuple[ClusterView, int]:
    """The view after the next plan, and how many flows that moves."""
    following = after(view, solve_for_agents(view, options))
    pairs = zip(view.flows, following.flows, strict=True)
    return following, sum(one.path != other.path for one, other in pairs)


def test_simulated_work_of_jobs_that_never_meet_is_that_alone() -> None:
    jobs = [{"compute": 1.0, "flows": [(0, 1, 0.5, f"s{n}")]} for n in range(2)]
    made = problems.problem(jobs)
    level = np.zeros(2, np.int64)
    apart, together = made.flow_path, np.repeat(made.flow_path[:1], 2)
    value = simulated_choice.values(made, np.ones(2), [(apart, level), (together, level)])
    assert value[0] == pytest.approx(2 / 1.5)
    assert value[1] < 0.99 * value[0]


def test_the_number_of_events_is_bounded() -> None:
    assert simulated_choice.fits(build(crowd(12, 1)))
    assert not simulated_choice.fits(build(crowd(120, 1)))
    short = problems.view(
        [{"compute": c, "flows": [(0, 1, 0.1 * c, "s0")]} for c in (1e-6, 1.0)],
    )
    assert not simulated_choice.fits(build(short))


@pytest.mark.parametrize("options", [Options(), NEVER], ids=["simulated", "predicted"])
def test_a_plan_that_was_carried_out_moves_nothing(options: Options) -> None:
    view, first = moved(crowd(9, 2), options)
    assert first > 0
    assert moved(view, options)[1] == 0


def test_a_plan_that_moves_is_simulated_to_do_no_less_than_crux() -> None:
    view = crowd(9, 3)
    found = solve(view, Options())
    crux = solve(view, Options(paths="crux"))
    schedules = [(one.decision.routing, one.decision.level) for one in (found, crux)]
    value = simulated_choice.values(found.problem, found.problem.work, schedules)
    assert found.decision.moved
    assert value[0] >= value[1]


@pytest.mark.parametrize("options", [Options(), NEVER], ids=["simulated", "predicted"])
def test_flows_that_swapped_their_paths_between_plans_do_not_swap_for_ever(
    options: Options,
) -> None:
    """Hosts that carry out each other's moves: each flow of a cycle is on the next one's path."""
    view, _ = moved(crowd(9, 4), options)
    flows = view.flows
    cycle = [replace(f, path=flows[n - 1].path) for n, f in enumerate(flows)]
    view = replace(view, flows=tuple(cycle))
    counts = []
    for _ in range(4):
        view, count = moved(view, options)
        counts.append(count)
    assert counts[1:] == [0, 0, 0]


@pytest.mark.parametrize("options", [Options(), NEVER], ids=["simulated", "predicted"])
def test_links_that_vanish_between_plans(options: Options) -> None:
    view, _ = moved(crowd(9, 5), options)
    # From the list of links and from the tables: paths over it are unknown now.
    gone = replace(
        view,
        links=tuple(link for link in view.links if "s1" not in link[0].split(">")),
        tables=tuple(
            replace(table, paths=tuple(path for path in table.paths if path.id != "s1"))
            for table in view.tables
        ),
    )
    following, _ = moved(gone, options)
    assert {flow.path for flow in following.flows} <= {"s0", "s2"}
    assert moved(following, options)[1] == 0
    # It is back: nothing alternates.
    back = replace(following, links=view.links, tables=view.tables)
    back, _ = moved(back, options)
    assert moved(back, options)[1] == 0


@pytest.mark.parametrize("options", [Options(), NEVER], ids=["simulated", "predicted"])
def test_jobs_that_flap_do_not_make_the_others_oscillate(options: Options) -> None:
    view, _ = moved(crowd(9, 6), options)
    paths = {flow.id: flow.path for flow in view.flows}
    history = []
    for turn in range(8):
        away = {"j3"} if turn % 2 else set()
        # It returns with flows that have no path yet.
        flows = tuple(
            replace(f, path="" if f.job == "j3" else paths[f.id])
            for f in view.flows
            if f.job not in away
        )
        jobs = tuple(job for job in view.jobs if job.job not in away)
        now = replace(view, jobs=jobs, flows=flows)
        following, _ = moved(now, options)
        others = [f for f in following.flows if f.job != "j3"]
        history.append(sum(paths[f.id] != f.path for f in others))
        paths |= {f.id: f.path for f in others}
    assert history[4:] == [0, 0, 0, 0]
