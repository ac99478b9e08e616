"""Flows share links only where they have to."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

import numpy as np
import pytest

from hostcc.config.sections.plan import PlanConfig
from hostcc.daemon.planning.planner import options
from hostcc.model import ClusterView, Flow, JobProfile, Path, PathTable
from hostcc.schedule.explain import explain
from hostcc.schedule.paths.free_paths import move_to_free_paths
from hostcc.schedule.plan import Solution, solve_for_agents
from hostcc.schedule.problem import Ints, Problem, build

pytestmark = pytest.mark.unit

RATE = 1e7
SPINES = 4
PAIRS = (("h1", "h3"), ("h2", "h4"), ("h1", "h3"), ("h2", "h4"))
SIDE = {"h1": 1, "h2": 1, "h3": 2, "h4": 2}
OPTIONS = options(PlanConfig())


def fabric(paths: dict[str, str], *, slow: str = "", jobs: int = 4) -> ClusterView:
    """Rings of two hosts on two leaves and four spines; `paths`: flow -> where it is now."""
    tables = []
    for src, dst in sorted({(a, b) for pair in PAIRS for a, b in (pair, pair[::-1])}):
        ways = tuple(
            Path(f"p{s}", (f"{src}>", f"leaf{SIDE[src]}-s{s}", f"s{s}-leaf{SIDE[dst]}", f">{dst}"))
            for s in range(SPINES)
        )
        tables.append(PathTable(src, dst, ways))
    links = {link for table in tables for path in table.paths for link in path.links}
    flows = [
        Flow(f"{a}/f{n}", f"j{n}", a, b, 0.12 * RATE, path=paths.get(f"{a}/f{n}", ""))
        for n, pair in enumerate(PAIRS[:jobs])
        for a, b in (pair, pair[::-1])
    ]
    return ClusterView(
        jobs=tuple(JobProfile(f"j{n}", 0.12, 0.12, 1e12, 1.0, period_s=0.24) for n in range(jobs)),
        flows=tuple(flows),
        tables=tuple(tables),
        links=tuple((x, RATE / 8 if slow and slow in x else RATE) for x in sorted(links)),
        digest="d",
    )


def meeting(found: Solution) -> int:
    """Flows too many, over the links between leaves and spines."""
    problem = found.problem
    on: Counter[str] = Counter()
    for path in found.decision.routing.tolist():
        span = slice(problem.path_start[path], problem.path_start[path + 1])
        on.update(problem.link_ids[link] for link in problem.path_links[span])
    return sum(count - 1 for link, count in on.items() if "-" in link and count > 1)


def scattered(seed: int) -> dict[str, str]:
    chance = Random(seed)
    names = [flow.id for flow in fabric({}).flows]
    return {name: f"p{chance.randrange(SPINES)}" for name in names}


@pytest.mark.parametrize("seed", range(20))
def test_wherever_a_hash_has_put_them_no_two_share_a_link(seed: int) -> None:
    chance = Random(-seed)
    view = fabric(scattered(seed))
    flows = [replace(flow, bytes=flow.bytes * chance.uniform(0.7, 1.4)) for flow in view.flows]
    assert meeting(solve_for_agents(replace(view, flows=tuple(flows)), OPTIONS)) == 0


def test_a_job_that_is_a_guess_counts_like_any_other() -> None:
    view = fabric(scattered(3))
    guess = replace(view.jobs[0], compute_s=1.0, comm_start_s=0.0, confidence=0.0)
    assert meeting(solve_for_agents(replace(view, jobs=(guess, *view.jobs[1:])), OPTIONS)) == 0


def test_flows_that_share_nothing_stay() -> None:
    where = {f.id: f"p{f.id[-1]}" for f in fabric({}).flows}
    found = solve_for_agents(fabric(where), OPTIONS)
    assert found.decision.routing.tolist() == found.problem.flow_path.tolist()
    assert found.decision.moved == ()


def test_where_two_meet_one_moves_and_says_why() -> None:
    where = {f.id: f"p{f.id[-1]}" for f in fabric({}).flows} | {"h2/f1": "p0"}
    found = solve_for_agents(fabric(where), OPTIONS)
    (moved,) = found.decision.moved
    assert [found.problem.flow_ids[flow] for flow in moved.flows] == ["h2/f1"]
    job = found.problem.job_ids[found.problem.flow_job[moved.flows[0]]]
    words = [flow.reason for flow in explain(found, job).flows]
    assert any(one.startswith("moves: predicted gain") for one in words), words
    assert "1 move for a gain" in found.decision.how


def test_two_jobs_of_which_nothing_is_known_get_a_path_each() -> None:
    assert meeting(solve_for_agents(fabric({}, jobs=2), OPTIONS)) == 0


def test_a_free_path_that_is_slower_is_none() -> None:
    where = {f.id: f"p{min(2, int(f.id[-1]))}" for f in fabric({}).flows}
    view = fabric(where, slow="s3")
    problem = build(view)
    assert move_to_free_paths(problem, problem.flow_path) == {}
    problem = build(fabric(where))
    gone = move_to_free_paths(problem, problem.flow_path)
    assert {problem.flow_ids[flow]: problem.path_ids[path] for flow, path in gone.items()} == {
        "h2/f3": "p3",
        "h4/f3": "p3",
    }


def test_who_moves_anyhow_takes_the_free_path() -> None:
    where = {f.id: f"p{min(2, int(f.id[-1]))}" for f in fabric({}).flows}
    del where["h1/f2"]
    problem = build(fabric(where))
    nowhere = problem.flow_path < 0
    third = problem.table_start[problem.flow_table] + 2
    gone = move_to_free_paths(problem, np.where(nowhere, third, problem.flow_path))
    assert {problem.flow_ids[flow] for flow in gone} == {"h1/f2", "h4/f3"}


def test_an_operators_choice_of_method_is_kept() -> None:
    view = fabric(scattered(0))
    found = solve_for_agents(view, options(PlanConfig(paths="stay")))
    assert found.decision.routing.tolist() == found.problem.flow_path.tolist()
    assert meeting(found) > 0


def test_nothing_to_look_at() -> None:
    problem = build(ClusterView(digest="d"))
    assert move_to_free_paths(problem, problem.flow_path) == {}


def one_by_one(problem: Problem, routing: Ints) -> dict[int, int]:
    """The same by its definition: every flow looked at in turn."""
    tables = np.searchsorted(problem.table_start, np.arange(len(problem.path_ids)), side="right")
    links = [
        set(problem.path_links[slice(*problem.path_start[path : path + 2])].tolist())
        for path in range(len(problem.path_ids))
    ]
    ways = []
    for path, table in enumerate((tables - 1).tolist()):
        others = range(*problem.table_start[table : table + 2].tolist())
        ways.append(links[path] - set.intersection(*(links[other] for other in others)))
    slowest = [min((problem.capacity[link] for link in own), default=np.inf) for own in links]
    where = routing.tolist()
    on = Counter(link for path in where for link in ways[path])
    crowded = [flow for flow, path in enumerate(where) if any(on[x] > 1 for x in ways[path])]
    crowded.sort(key=lambda flow: (problem.flow_path[flow] == routing[flow], -flow))
    moved = {}
    for flow in crowded:
        here = ways[where[flow]]
        if not any(on[link] > 1 for link in here):
            continue
        on.subtract(here)
        table = problem.flow_table[flow]
        for path in range(*problem.table_start[table : table + 2].tolist()):
            if not any(on[x] for x in ways[path]) and slowest[path] >= slowest[where[flow]]:
                where[flow] = moved[flow] = path
                break
        on.update(ways[where[flow]])
    return moved


@pytest.mark.parametrize("seed", range(40))
def test_who_cannot_move_is_rightly_left_out(seed: int) -> None:
    chance = Random(seed)
    spines, leaves = chance.choice(((3, 4), (8, 6), (20, 12)))
    tables = []
    for src in range(leaves):
        for dst in range(leaves):
            ways = [
                Path(f"s{s:02}", (f"h{src}", f"{src}>{s}", f"{s}>{dst}", f"h{dst}<"))
                for s in range(spines)
                if chance.random() < 0.9
            ]
            if chance.random() < 0.1:
                ways.append(Path("t", (f"h{src}", f"h{dst}<")))
            tables.append(PathTable(f"{src}", f"{dst}", tuple(ways)))
    names = {link for table in tables for path in table.paths for link in path.links}
    flows = [
        Flow(
            f"f{n}",
            f"j{n % 7}",
            f"{chance.randrange(leaves)}",
            f"{chance.randrange(leaves)}",
            1.0,
            path=chance.choice(("", f"s{chance.randrange(spines):02}")),
        )
        for n in range(chance.choice((5, 30, 150)))
    ]
    view = ClusterView(
        jobs=tuple(JobProfile(f"j{n}", 1.0, 1.0, 1e12, 1.0) for n in range(7)),
        flows=tuple(flows),
        tables=tuple(tables),
        links=tuple((name, chance.choice((1.0, 1.0, 1.0, 2.0))) for name in sorted(names)),
    )
    problem = build(view)
    count = np.diff(problem.table_start)[problem.flow_table]
    any_path = problem.table_start[problem.flow_table] + (chance.randrange(spines) % count)
    routing = np.where(problem.flow_path >= 0, problem.flow_path, any_path)
    assert move_to_free_paths(problem, routing) == one_by_one(problem, routing)
