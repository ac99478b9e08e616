"""Flows share links only where they have to."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

import numpy as np
import pytest

from hostcc.model import ClusterView, Flow, JobProfile, Path, PathTable
from hostcc.planning.apart import apart
from hostcc.planning.planner import options, solved
from hostcc.schedule.explain import explain
from hostcc.schedule.plan import Solution
from hostcc.schedule.problem import build
from hostcc.sections.plan import PlanConfig

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
    assert meeting(solved(replace(view, flows=tuple(flows)), OPTIONS)) == 0


def test_a_job_that_is_a_guess_counts_like_any_other() -> None:
    view = fabric(scattered(3))
    guess = replace(view.jobs[0], compute_s=1.0, comm_start_s=0.0, confidence=0.0)
    assert meeting(solved(replace(view, jobs=(guess, *view.jobs[1:])), OPTIONS)) == 0


def test_flows_that_share_nothing_stay() -> None:
    where = {f.id: f"p{f.id[-1]}" for f in fabric({}).flows}
    found = solved(fabric(where), OPTIONS)
    assert found.decision.routing.tolist() == found.problem.flow_path.tolist()
    assert found.decision.moved == ()


def test_where_two_meet_one_moves_and_says_why() -> None:
    where = {f.id: f"p{f.id[-1]}" for f in fabric({}).flows} | {"h2/f1": "p0"}
    found = solved(fabric(where), OPTIONS)
    (moved,) = found.decision.moved
    assert [found.problem.flow_ids[flow] for flow in moved.flows] == ["h2/f1"]
    job = found.problem.job_ids[found.problem.flow_job[moved.flows[0]]]
    words = [flow.reason for flow in explain(found, job).flows]
    assert "moves: predicted gain a path of its own" in words
    assert "1 flows get paths of their own" in found.decision.how


def test_two_jobs_of_which_nothing_is_known_get_a_path_each() -> None:
    assert meeting(solved(fabric({}, jobs=2), OPTIONS)) == 0


def test_a_free_path_that_is_slower_is_none() -> None:
    where = {f.id: f"p{min(2, int(f.id[-1]))}" for f in fabric({}).flows}
    view = fabric(where, slow="s3")
    problem = build(view)
    assert apart(problem, problem.flow_path) == {}
    problem = build(fabric(where))
    gone = apart(problem, problem.flow_path)
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
    gone = apart(problem, np.where(nowhere, third, problem.flow_path))
    assert {problem.flow_ids[flow] for flow in gone} == {"h1/f2", "h4/f3"}


def test_an_operators_choice_of_method_is_kept() -> None:
    view = fabric(scattered(0))
    found = solved(view, options(PlanConfig(paths="stay")))
    assert found.decision.routing.tolist() == found.problem.flow_path.tolist()
    assert meeting(found) > 0


def test_nothing_to_look_at() -> None:
    problem = build(ClusterView(digest="d"))
    assert apart(problem, problem.flow_path) == {}
