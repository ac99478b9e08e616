"""Plans for failures: what hosts would plan once the failure is in the view."""

from __future__ import annotations

import dataclasses

import pytest

from hostcc.model import ClusterView, Flow, Path, PathTable
from hostcc.schedule.failure_plans import (
    Links,
    failure_plans,
    iter_failure_plans,
    switches,
    view_without,
)
from hostcc.schedule.plan import Options, plan
from tests.schedule.test_plan import many, shuffled, valid
from tests.schedule.views import job, one_link

pytestmark = pytest.mark.unit

VIEW = many(6, 12)
QUICK = Options(simulations=0)


def on(view: ClusterView) -> ClusterView:
    paths = {one.flow: one.path for one in plan(view, QUICK).flows}
    flows = tuple(dataclasses.replace(flow, path=paths[flow.id]) for flow in view.flows)
    return dataclasses.replace(view, flows=flows)


def links_of(view: ClusterView) -> dict[str, frozenset[str]]:
    names = {
        (table.src, table.dst, path.id): frozenset(path.links)
        for table in view.tables
        for path in table.paths
    }
    return {flow.id: names[flow.src, flow.dst, flow.path] for flow in view.flows}


def test_every_link_and_switch_that_carries_a_flow_has_a_plan() -> None:
    found = dict(iter_failure_plans(VIEW, QUICK))
    present = on(VIEW)
    used = set().union(*links_of(present).values())
    assert {next(iter(links)) for links in found if len(links) == 1} == used
    spines = [
        frozenset(link for link, _ in VIEW.links if f"s{spine}" in link) for spine in range(8)
    ]
    there = {links for links in found if len(links) > 1}
    assert {spine for spine in spines if spine & used} <= there


def test_a_prepared_plan_is_what_hosts_plan_after_the_failure() -> None:
    present = on(VIEW)
    for links, made in iter_failure_plans(VIEW, QUICK):
        then = plan(view_without(present, links), QUICK)
        assert dataclasses.replace(made, reason=then.reason) == then
        assert made.reason.endswith(then.reason)
        assert min(links) in made.reason


def test_only_flows_that_were_hit_move_unless_it_gains_something() -> None:
    before = {flow.id: flow.path for flow in on(VIEW).flows}
    crossing = links_of(on(VIEW))
    after = {
        (table.src, table.dst, path.id): frozenset(path.links)
        for table in VIEW.tables
        for path in table.paths
    }
    ends = {flow.id: (flow.src, flow.dst) for flow in VIEW.flows}
    for links, made in failure_plans(VIEW, QUICK, 20).items():
        hit = {flow for flow, own in crossing.items() if own & links}
        assert hit
        for one in made.flows:
            assert not after[(*ends[one.flow], one.path)] & links
        moved = {one.flow for one in made.flows if one.path != before[one.flow]}
        assert len(moved - hit) <= 3


def test_bounded_and_the_worst_first() -> None:
    every = list(iter_failure_plans(VIEW, QUICK))
    assert dict(every[:3]) == failure_plans(VIEW, QUICK, 3)
    assert failure_plans(VIEW, QUICK, 0) == {}
    sizes = {flow.id: flow.bytes for flow in VIEW.flows}
    crossing = links_of(on(VIEW))

    def weight(links: Links) -> float:
        return sum(sizes[flow] for flow, own in crossing.items() if own & links)

    weights = [weight(links) for links, _ in every]
    assert weights == pytest.approx(sorted(weights, reverse=True))


def test_the_same_whatever_the_order_of_the_view() -> None:
    assert failure_plans(shuffled(VIEW, 3), QUICK, 4) == failure_plans(VIEW, QUICK, 4)


def test_plans_stay_valid_and_small_views_work() -> None:
    for made in failure_plans(VIEW, QUICK, 6).values():
        valid(VIEW, made, 8)
    assert failure_plans(ClusterView()) == {}
    # One path only: its failure leaves nothing to prepare.
    assert failure_plans(one_link([job("a"), job("b")], [1.0, 1.0])) == {}


def test_switches_are_where_links_follow_each_other() -> None:
    tables = [
        PathTable("a", "b", (Path("x", ("a>s", "s>b")), Path("y", ("a>t", "t>b")))),
        PathTable("c", "b", (Path("x", ("c>s", "s>b")), Path("z", ()))),
    ]
    assert switches(tables) == [frozenset({"a>s", "c>s", "s>b"}), frozenset({"a>t", "t>b"})]


def test_a_flow_whose_table_is_gone_is_no_obstacle() -> None:
    flows = (*VIEW.flows, Flow("lost", "job0", "t0", "nowhere", 1.0))
    assert failure_plans(dataclasses.replace(VIEW, flows=flows), QUICK, 2)
