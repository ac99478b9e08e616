"""The whole pipeline: the same for everyone, valid, defined for whatever comes in."""

from __future__ import annotations

import dataclasses
import random
from itertools import product

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostcc.model import ClusterView, Flow, Path, PathTable, Plan
from hostcc.schedule import coupling
from hostcc.schedule.compression import METHODS
from hostcc.schedule.errors import OptionsError
from hostcc.schedule.job_pairs import pairs
from hostcc.schedule.methods import ORDERS, ROUTES
from hostcc.schedule.plan import Options, decide, plan
from hostcc.schedule.problem import build
from hostcc.sim.small import small_case
from tests import hash_seeds
from tests.schedule.views import job, one_link

pytestmark = [pytest.mark.unit, pytest.mark.slow]

QUICK = Options(simulations=0)


def shuffled(view: ClusterView, seed: int) -> ClusterView:
    rng = random.Random(seed)
    parts = {}
    for name in ("jobs", "flows", "tables", "links", "members"):
        items = list(getattr(view, name))
        rng.shuffle(items)
        parts[name] = tuple(items)
    return dataclasses.replace(view, **parts)  # type: ignore[arg-type]


def many(jobs: int, flows: int, seed: int = 0) -> ClusterView:
    """Jobs over 8 ToRs and 8 spines."""
    rng = random.Random(seed)
    profiles = tuple(
        job(f"job{i}", compute=rng.uniform(0.3, 2), work=rng.uniform(1, 9)) for i in range(jobs)
    )
    made = []
    for index in range(flows):
        src, dst = rng.sample(range(8), 2)
        name = f"job{index % jobs}"
        made.append(Flow(f"f{index}", name, f"t{src}", f"t{dst}", rng.uniform(0.01, 0.2)))
    tables = tuple(
        PathTable(
            f"t{a}",
            f"t{b}",
            tuple(Path(f"s{s}", (f"t{a}-s{s}", f"s{s}-t{b}")) for s in range(8)),
        )
        for a, b in product(range(8), repeat=2)
        if a != b
    )
    links = {link for table in tables for path in table.paths for link in path.links}
    capacities = tuple((link, 1.0) for link in sorted(links))
    return ClusterView(profiles, tuple(made), tables, capacities, digest="many")


def valid(view: ClusterView, made: Plan, levels: int, *, by_component: bool = False) -> None:
    """Check a plan of a view; `by_component`: it is one for agents, who rank within components."""
    assert [one.job for one in made.jobs] == sorted(one.job for one in view.jobs)
    rank, whole = {one.job: one.rank for one in made.jobs}, [view.jobs]
    if by_component:
        known = {one.job: one for one in view.jobs}
        parts = coupling.components(build(view))
        whole = [tuple(known[job] for job in part.problem.job_ids) for part in parts]
    for jobs in whole:
        assert sorted(rank[one.job] for one in jobs) == list(range(len(jobs)))
    assert all(0 <= one.level < levels for one in made.jobs)
    names = {(t.src, t.dst): {path.id for path in t.paths} for t in view.tables}
    ends = {flow.id: (flow.src, flow.dst) for flow in view.flows}
    assert all(one.path in names[ends[one.flow]] for one in made.flows)
    assert len({one.flow for one in made.flows}) == len(made.flows)


@pytest.mark.parametrize("index", range(3))
def test_parts_in_any_order_give_the_same_bytes(index: int) -> None:
    view = small_case(1, index)
    expected = msgspec.json.encode(plan(view))
    valid(view, plan(view), 8)
    for seed in range(2):
        assert msgspec.json.encode(plan(shuffled(view, seed))) == expected


def test_another_process_with_another_hash_seed() -> None:
    script = (
        "import sys, msgspec; from hostcc.sim.small import small_case;"
        "from hostcc.schedule.plan import plan, Options;"
        "from tests.schedule.test_plan import many, shuffled;"
        "views = [small_case(1, 0), shuffled(many(30, 200), int(sys.argv[1]))];"
        "sys.stdout.buffer.write(b''.join(msgspec.json.encode(plan(v)) for v in views))"
    )
    assert hash_seeds.output(script)


@pytest.mark.parametrize(("route", "order", "compress"), list(product(ROUTES, ORDERS, METHODS)))
def test_every_combination_is_valid(route: str, order: str, compress: str) -> None:
    view = many(12, 60)
    options = Options(levels=4, paths=route, order=order, compression=compress)
    valid(view, plan(view, options), 4)


@given(st.integers(1, 25), st.integers(0, 60), st.integers(1, 9), st.integers(0, 10**6))
@settings(max_examples=40, deadline=None)
def test_levels_never_contradict_ranks(jobs: int, flows: int, levels: int, seed: int) -> None:
    view = many(jobs, flows, seed)
    options = Options(levels=levels, simulations=0)
    valid(view, plan(view, options), levels)
    problem = build(view)
    found = decide(problem, options, levels)
    met = pairs(problem, found.routing)
    ahead = found.rank[met.one] < found.rank[met.other]
    first = np.where(ahead, met.one, met.other)
    second = np.where(ahead, met.other, met.one)
    assert (found.level[first] <= found.level[second]).all()


def test_nothing_and_one() -> None:
    assert plan(ClusterView(digest="x")) == dataclasses.replace(
        plan(ClusterView(), QUICK), digest="x"
    )
    (only,) = plan(one_link([job("a")], [1.0])).jobs
    assert (only.rank, only.level) == (0, 0)


def test_jobs_without_paths_get_best_effort() -> None:
    view = one_link([job("a"), job("b")], [1.0, 1.0])
    dead = dataclasses.replace(view, links=(("link", 0.0),))
    made = plan(dead, Options(levels=4, reserved=(3,)))
    assert [one.level for one in made.jobs] == [2, 2]
    assert "no usable path" in made.jobs[0].reason
    assert made.flows == ()


def test_reserved_levels_stay_free() -> None:
    view = one_link([job(f"j{i}", work=10.0 - i) for i in range(8)], [0.1] * 8)
    made = plan(view, Options(levels=6, reserved=(0, 3)))
    assert {one.level for one in made.jobs} == {1, 2, 4, 5}


def test_ten_thousand_jobs_on_one_link() -> None:
    count = 10_000
    profiles = [job(f"j{i:05}", work=1.0 + i % 97) for i in range(count)]
    made = plan(one_link(profiles, [1e-5] * count))
    assert sorted(one.rank for one in made.jobs) == list(range(count))


@pytest.mark.parametrize(
    "options",
    [
        Options(paths="nowhere"),
        Options(order="x"),
        Options(compression="x"),
        Options(levels=0),
        Options(reserved=(9,)),
        Options(fairness=-1.0),
        Options(fairness=float("nan")),
        Options(most_loss=-0.1),
    ],
)
def test_bad_options_are_named(options: Options) -> None:
    with pytest.raises(OptionsError, match="expected"):
        plan(one_link([job("a"), job("b")], [1.0, 1.0]), options)


def test_a_job_that_fell_behind_goes_first() -> None:
    profiles = [job("a", work=2.0), job("b", work=1.9, slowdown=3.0)]
    view = one_link(profiles, [1.0, 1.0])
    assert [one.rank for one in plan(view, QUICK).jobs] == [0, 1]
    fair = plan(view, dataclasses.replace(QUICK, fairness=1.0))
    assert [one.rank for one in fair.jobs] == [1, 0]


def test_a_bound_on_what_a_job_may_lose() -> None:
    profiles = [job("a", work=10.0, compute=0.5), job("b", work=1.0, compute=4.0)]
    view = one_link(profiles, [2.0, 0.4])
    free = plan(view, QUICK)
    assert [one.rank for one in free.jobs] == [0, 1]
    bounded = plan(view, Options(most_loss=0.05))
    assert [one.rank for one in bounded.jobs] == [1, 0]


def test_flows_whose_bytes_round_to_nothing_are_no_overload() -> None:
    profiles = [job(name, compute=2.0, period_s=0.0) for name in ("a", "b")]
    view = one_link(profiles, [5e-324, 5e-324])
    assert [one.job for one in plan(view, QUICK).jobs]
