"""The methods "maxmin" and "balance", from a view to the paths of a plan."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostcc.config.sections.plan import PlanConfig
from hostcc.daemon.planning.planner import Planner
from hostcc.model import ClusterView, Plan
from hostcc.schedule.explain import explain
from hostcc.schedule.paths import link_balance
from hostcc.schedule.paths.isolated import isolated_jobs
from hostcc.schedule.plan import Options, solve_for_agents
from hostcc.schedule.plan_writer import write_plan
from hostcc.schedule.problem import build
from tests.schedule.paths.clos_views import Sent, three_layers, two_layers
from tests.schedule.test_plan import shuffled, valid

pytestmark = pytest.mark.unit

METHODS = sorted(link_balance.METHODS)
WAYS = [f"p{plane}.{core}" for plane in range(2) for core in range(2)]


def planned(view: ClusterView, method: str) -> Plan:
    """As an agent with this configuration plans it."""
    return Planner(PlanConfig(paths=method))(view)  # type: ignore[arg-type]


def on(view: ClusterView, plan: Plan) -> ClusterView:
    """The view after the plan was carried out."""
    paths = {one.flow: one.path for one in plan.flows}
    flows = tuple(replace(flow, path=paths.get(flow.id, flow.path)) for flow in view.flows)
    return replace(view, flows=flows)


def loads(view: ClusterView) -> dict[str, float]:
    """Link -> share of time that it is busy, for flows on their present paths. Jobs of these
    views compute for a second, and send afterwards."""
    problem = build(view)
    routing = problem.flow_path
    rows = []
    for flow, path in enumerate(routing.tolist()):
        span = slice(problem.path_start[path], problem.path_start[path + 1])
        rows += [(flow, link) for link in problem.path_links[span].tolist()]
    rate = problem.flow_bytes / isolated_jobs(problem).period[problem.flow_job]
    found: dict[str, float] = {}
    for flow, link in rows:
        name = problem.link_ids[link]
        found[name] = found.get(name, 0.0) + float(rate[flow] / problem.capacity[link])
    return found


def nine() -> ClusterView:
    """Nine equal jobs, seven of them on one of three spines."""
    return two_layers(
        [(f"j{i}", f"h{i}", f"h{20 + i}", 0.25, "p0" if i < 7 else f"p{i - 6}") for i in range(9)],
        per_tor=10,
    )


@pytest.mark.parametrize("method", METHODS)
def test_nine_jobs_on_three_spines_are_three_on_each(method: str) -> None:
    made = planned(nine(), method)
    assert Counter(one.path for one in made.flows) == {"p0": 3, "p1": 3, "p2": 3}
    assert "5 flows stay, 4 move, 0 are placed, 1 group on a two-layer Clos" in made.reason


@pytest.mark.parametrize("method", METHODS)
def test_three_layers_are_planned_as_such(method: str) -> None:
    # Each host of pod 0 sends to pod 1: four flows over two planes of two cores.
    sent = [(f"j{n}", f"h{n}", f"h{4 + n}", 0.2, "p0.0") for n in range(4)]
    view = three_layers(sent)
    made = planned(view, method)
    assert Counter(one.path for one in made.flows) == Counter(WAYS)
    assert "1 group on a three-layer Clos" in made.reason
    # With flows within the pod, which take a plane each.
    more = [(f"k{n}", f"h{n}", f"h{2 + n}", 0.2, "") for n in range(2)]
    view = three_layers([*sent, *more])
    made = planned(view, method)
    assert max(loads(on(view, made)).values()) == pytest.approx(2 * 0.2 / 1.2)


@pytest.mark.parametrize("method", METHODS)
def test_no_clos_is_planned_by_its_tables(method: str) -> None:
    sent = [(f"j{n}", f"h{n}", f"h{4 + n}", 0.2, "p0") for n in range(4)]
    view = two_layers(sent, missed=[("h0", "h4", "p1"), ("h1", "h5", "p1")])
    made = planned(view, method)
    valid(view, made, 8, by_component=True)
    assert sorted(Counter(one.path for one in made.flows).values()) == [1, 1, 2]
    assert "1 group on no Clos that is known in full" in made.reason


def test_nearly_equal_demands_are_counted_and_others_are_not() -> None:
    def view(largest: float) -> ClusterView:
        sizes = [0.2, 0.2, 0.2, largest]
        return two_layers(
            [(f"j{n}", f"h{n}", f"h{4 + n}", sizes[n], "p0") for n in range(4)], spines=2
        )

    assert Counter(one.path for one in planned(view(0.24), "balance").flows) == {"p0": 2, "p1": 2}
    assert "by maxmin" not in planned(view(0.24), "balance").reason
    # The large flow is alone by its demand, whatever the number of flows.
    for method in METHODS:
        made = planned(view(0.9), method)
        assert sorted(Counter(one.path for one in made.flows).values()) == [1, 3]
        assert ("1 group by maxmin because demands differ" in made.reason) == (method == "balance")


@pytest.mark.parametrize("method", METHODS)
def test_a_plan_says_why_a_flow_moves(method: str) -> None:
    found = solve_for_agents(nine(), Options(paths=method))
    moved = {flow for one in found.decision.moved for flow in one.flows}
    assert len(moved) == 4
    job = found.problem.job_ids[int(found.problem.flow_job[min(moved)])]
    (flow,) = explain(found, job).flows
    assert flow.reason == (
        "moves with 3 other flows: lowers the load of the busiest link from 1.40 to 0.60"
    )
    assert explain(found, "j8").flows[0].reason == "stays: no move gains enough"


def test_a_move_that_leaves_the_busiest_link_as_busy_does_not_claim_to_relieve_it() -> None:
    # Two large flows have a link for themselves; of four small ones, three share one.
    sizes = [0.9, 0.9, 0.1, 0.1, 0.1, 0.1]
    paths = ["p0", "p1", "p2", "p2", "p2", "p3"]
    sent = [(f"j{n}", f"h{n}", f"h{6 + n}", sizes[n], paths[n]) for n in range(6)]
    found = solve_for_agents(two_layers(sent, spines=4, per_tor=6), Options(paths="maxmin"))
    ((flow,),) = [one.flows for one in found.decision.moved]
    (reason,) = explain(found, found.problem.job_ids[int(found.problem.flow_job[flow])]).flows
    assert reason.reason == "moves: balances links, the busiest of which has a load of 0.47"


@pytest.mark.parametrize("method", METHODS)
def test_nothing_and_flows_without_a_choice(method: str) -> None:
    assert planned(ClusterView(digest="d"), method).flows == ()
    view = two_layers([("a", "h0", "h1", 1.0, ""), ("b", "h0", "h4", 1.0, "")], spines=1)
    made = planned(view, method)
    assert [one.path for one in made.flows] == ["here", "p0"]
    assert "group" not in made.reason


@pytest.mark.parametrize("method", METHODS)
def test_a_spine_that_has_failed_is_left_by_its_flows_only(method: str) -> None:
    view = on(nine(), planned(nine(), method))
    gone = [link for tor in (0, 2) for link in (f"t{tor}s1", f"s1t{tor}")]
    sent = [
        (flow.job, flow.src, flow.dst, flow.bytes, flow.path)
        for flow in sorted(view.flows, key=lambda flow: flow.job)
    ]
    failed = two_layers(sent, per_tor=10, dead=gone)
    made = planned(failed, method)
    before = {flow.id: flow.path for flow in view.flows}
    stay = [one for one in made.flows if one.path == before[one.flow]]
    assert len(stay) == 6
    assert sorted(Counter(one.path for one in made.flows).values()) == [4, 5]


@st.composite
def views(draw: st.DrawFn) -> ClusterView:
    """A fabric of two or three layers, links and searches of which may have failed, with flows on
    paths by ECMP; some may have none yet."""
    three = draw(st.booleans())
    rng = random.Random(draw(st.integers(0, 2**32)))
    ways = WAYS if three else ["p0", "p1", "p2"]
    sent: list[Sent] = []
    for number in range(draw(st.integers(0, 14))):
        src, dst = rng.sample(range(12), 2)
        size = draw(st.sampled_from([0.1, 0.2, 0.2, 0.2, 0.7]))
        path = rng.choice(ways)
        if three and src // 4 == dst // 4:
            path = path[:2]
        if src // (2 if three else 4) == dst // (2 if three else 4):
            path = "here"
        known = draw(st.booleans()) or draw(st.booleans())
        sent.append((f"j{number % 5}", f"h{src}", f"h{dst}", size, path if known else ""))
    links = ["t0a0", "a1t2", "a0.0c1", "c1a1.1"] if three else ["t0s1", "s1t0", "s2t1"]
    dead = draw(st.lists(st.sampled_from(links), max_size=2))
    missed = [(*one[1:3], one[4]) for one in sent if rng.random() < 0.05 and one[4] != "here"]
    return (three_layers if three else two_layers)(sent, dead=dead, missed=missed)


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=40, deadline=None)
@given(view=views(), seed=st.integers(0, 10**6))
def test_own_paths_whatever_the_order_and_nothing_moves_twice(
    method: str, view: ClusterView, seed: int
) -> None:
    made = write_plan("d", solve_for_agents(view, Options(paths=method)))
    valid(view, made, 8, by_component=True)
    assert {one.flow for one in made.flows} == set(build(view).flow_ids)
    back = write_plan("d", solve_for_agents(shuffled(view, seed), Options(paths=method)))
    assert back == made
    again = solve_for_agents(on(view, made), Options(paths=method))
    assert not again.decision.moved
    assert write_plan("d", again).flows == made.flows


@settings(max_examples=60, deadline=None)
@given(view=views())
def test_the_busiest_link_is_never_busier_than_under_ecmp(view: ClusterView) -> None:
    known = tuple(flow for flow in view.flows if flow.path)
    view = replace(view, flows=known)
    placed = set(build(view).flow_ids)
    problem = build(view)
    usable = {problem.flow_ids[flow] for flow in np.flatnonzero(problem.flow_path >= 0).tolist()}
    view = replace(view, flows=tuple(flow for flow in known if flow.id in placed & usable))
    if not view.flows:
        return
    after = on(view, write_plan("d", solve_for_agents(view, Options(paths="maxmin"))))
    avoidable = {
        link
        for table in view.tables
        for link in set().union(*(path.links for path in table.paths))
        - set(table.paths[0].links).intersection(*(path.links for path in table.paths))
    }
    before, now = loads(view), loads(after)
    peak = [max((load[link] for link in load if link in avoidable), default=0.0)
            for load in (before, now)]  # fmt: skip
    assert peak[1] <= peak[0] * (1 + 1e-9)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11)), min_size=1, max_size=20))
def test_equal_demands_on_two_layers_are_exact(pairs: list[tuple[int, int]]) -> None:
    sent = [(f"j{n}", f"h{a}", f"h{b}", 0.25, "") for n, (a, b) in enumerate(pairs) if a != b]
    view = two_layers(sent)
    after = on(view, planned(view, "balance"))
    out = [(int(a[1:]) // 4, int(b[1:]) // 4) for _, a, b, _, _ in sent]
    out = [(a, b) for a, b in out if a != b]
    degree = max((count for end in (0, 1) for count in Counter(p[end] for p in out).values()),
                 default=0)  # fmt: skip
    found = loads(after)
    most = max((load for link, load in found.items() if link.startswith(">10.")), default=0.0)
    assert most == pytest.approx(-(-degree // 3) * 0.25 / 1.25)
