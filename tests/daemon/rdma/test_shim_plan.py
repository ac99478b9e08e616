"""What jobs are told."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hostcc.daemon.rdma import queue_pair_records, shim_plan
from hostcc.daemon.rdma.shim_plan import ShimInputs, ShimRoute
from hostcc.model import FlowPlan, JobPlan, Plan
from tests.daemon.rdma.test_queue_pair_flows import DST, SRC, TABLE, way

pytestmark = pytest.mark.unit


def a_plan(levels: dict[str, int], paths: dict[str, str]) -> Plan:
    return Plan(
        "digest",
        tuple(JobPlan(job, rank, level, 1.0) for rank, (job, level) in enumerate(levels.items())),
        tuple(FlowPlan(way(job).flow, path) for job, path in paths.items()),
    )


def the_clusters(levels: dict[str, int], paths: dict[str, str]) -> Plan:
    """Hosts call their flows by other names."""
    flows = (
        FlowPlan(f"me/{queue_pair_records.flow_id(way(job))}", path) for job, path in paths.items()
    )
    return replace(a_plan(levels, {}), flows=tuple(flows))


KNOWN = ShimInputs(tables={(SRC, DST): TABLE}, ways=(way("a"), way("b")))


def test_without_any_plan_nothing_is_asked() -> None:
    (one,) = shim_plan.jobs(["a"], ShimInputs(), {})
    assert (one.traffic_class, one.ports, one.pacing, one.gates) == (None, (), None, ())
    assert one.level == 7


def test_a_job_that_is_profiled_has_the_highest_class() -> None:
    known = replace(
        KNOWN,
        cluster=the_clusters({"a": 5, "b": 3}, {}),
        dscp=tuple(range(8)),
        first="a",
        highest=2,
    )
    one, other = shim_plan.jobs(["a", "b"], known, {})
    assert (one.level, one.traffic_class) == (2, 2 << 2)
    assert (other.level, other.traffic_class) == (3, 3 << 2)


def test_the_clusters_plan_comes_first() -> None:
    known = replace(
        KNOWN,
        cluster=the_clusters({"a": 3}, {"a": "right"}),
        member="me",
        local=a_plan({"a": 5, "b": 6}, {"a": "left", "b": "left"}),
        dscp=(0, 1, 2, 30, 4, 50, 60, 7),
    )
    first, second = shim_plan.jobs(["b", "a"], known, {})
    assert (first.name, first.level, first.traffic_class) == ("a", 3, 30 << 2)
    assert (second.name, second.level, second.traffic_class) == ("b", 6, 60 << 2)
    assert first.ports == ((DST, (50001, 50003)),)
    assert second.ports == ((DST, (50000, 50002)),)


def test_ports_stay_while_they_are_on_the_path() -> None:
    known = replace(KNOWN, local=a_plan({"a": 3}, {"a": "right"}))
    assert ports(known, ShimRoute("right", (50003,))) == (50003,)
    assert ports(known, ShimRoute("right", (50003, 50000))) == (
        50003,
        50001,
    )  # one leads elsewhere now
    assert ports(known, ShimRoute("right", (50000, 50002))) == (50001, 50003)  # all do


def ports(known: ShimInputs, before: ShimRoute) -> tuple[int, ...]:
    (one,) = shim_plan.jobs(["a"], known, {("a", DST): before})
    return dict(one.ports)[DST]


def test_what_a_plan_has_moved_is_not_taken_back_by_one_that_did_not_know() -> None:
    known = replace(KNOWN, cluster=the_clusters({"a": 3}, {"a": "right"}), member="me")
    (one,) = shim_plan.jobs(["a"], known, {})
    moved = shim_plan.routes([one], known)
    assert moved == {("a", DST): ShimRoute("right", (50001, 50003))}
    name = f"me/{queue_pair_records.flow_id(way('a'))}"
    stays = replace(known, cluster=the_clusters({"a": 3}, {"a": "left"}), stays={name})
    assert ports(stays, moved["a", DST]) == (50001, 50003)
    assert ports(replace(stays, stays={"me/roce-other"}), moved["a", DST]) == (50000, 50002)


def test_what_switches_hash_elsewhere_was_not_moved() -> None:
    name = f"me/{queue_pair_records.flow_id(way('a'))}"
    known = replace(KNOWN, cluster=the_clusters({"a": 3}, {"a": "left"}), member="me", stays={name})
    assert ports(known, ShimRoute("right", (50000, 50002))) == (50000, 50002)  # they lead left now
    assert ports(known, ShimRoute("gone", (50001,))) == (50000, 50002)


def test_a_path_that_is_gone() -> None:
    known = replace(KNOWN, local=a_plan({"a": 3}, {"a": "middle"}))
    assert shim_plan.jobs(["a"], known, {})[0].ports == ()


def test_many_ports_are_spread() -> None:
    assert shim_plan.spread(tuple(range(50000, 50100))) == tuple(range(50000, 50096, 12))
    assert shim_plan.spread((50000,)) == (50000,)


def test_the_path_of_a_port() -> None:
    assert shim_plan.path_of(TABLE, 50001) == "right"
    assert shim_plan.path_of(TABLE, 0) == shim_plan.path_of(None, 50001) == ""


def test_a_path_that_has_failed_is_left_before_a_plan_says_so() -> None:
    name = f"me/{queue_pair_records.flow_id(way('a'))}"
    plan = the_clusters({"a": 3}, {"a": "left"})
    known = replace(KNOWN, cluster=plan, member="me", stays={name}, ahead={way("a"): "right"})
    assert ports(known, ShimRoute("left", (50000,))) == (50001, 50003)


def test_what_is_held_goes_back_whatever_is_planned() -> None:
    known = replace(
        KNOWN, local=a_plan({"a": 3}, {"a": "left"}), ahead={way("a"): "right"}, held={way("a")}
    )
    (one,) = shim_plan.jobs(["a"], known, {("a", DST): ShimRoute("left", (50000,))})
    assert one.ports == ((DST, ()),)
    assert shim_plan.routes([one], known) == {}
