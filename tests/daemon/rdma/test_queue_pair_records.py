"""What others are told of queue pairs, and that the plan comes back to the same ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from hostcc.config.sections.paths import PathsConfig
from hostcc.coord.core import quantise
from hostcc.coord.core.merge import merge
from hostcc.coord.core.message import Record
from hostcc.coord.core.payloads import MAX_HOPS, Links
from hostcc.coord.core.settings import Settings
from hostcc.coord.core.store import Store
from hostcc.coord.view import build
from hostcc.daemon.gossip.rdma_profiles import informative, merged
from hostcc.daemon.rdma import queue_pair_records, shim_plan
from hostcc.daemon.rdma.queue_pair_flows import QueuePairRoute
from hostcc.daemon.rdma.queue_pair_records import rates_by_job
from hostcc.daemon.rdma.shim_plan import ShimInputs
from hostcc.daemon.steering import rdma_flows
from hostcc.daemon.steering.flow_records import FarEnds, links
from hostcc.daemon.steering.rdma_flows import RdmaFlows
from hostcc.model import ClusterView, JobProfile, Path, PathTable
from hostcc.schedule.assumed_work import EQUAL
from hostcc.schedule.plan import plan
from tests.coord.records import held, member, record
from tests.daemon.rdma.test_queue_pair_flows import DST, SRC, TABLE, way

pytestmark = pytest.mark.unit
UP = "host/pci/0000:00:01.0/up"
TO = "198.18.9.1"
OWNERS = {TO: "far"}


def shared(rates: Mapping[QueuePairRoute, float], **more: object) -> RdmaFlows:
    known = {"tables": {(SRC, DST): TABLE}, "inside": {}, "capacities": {}, "profiles": {},
             "on": {}, **more}  # fmt: skip
    return queue_pair_records.shared_flows(rates, **known)  # type: ignore[arg-type]


def test_a_flow_for_each_way() -> None:
    silent = QueuePairRoute("a", "mlx5_0", SRC, "198.18.3.1")
    nowhere = QueuePairRoute("a", "mlx5_0", "", DST)
    measured = JobProfile("b", 0.1, 0.05, 7e12, 8.0, period_s=0.2)
    told = shared(
        {way("a"): 1e9, way("b"): 1e9, silent: 10.0, nowhere: 1e9},
        profiles={"b": measured}, on={way("b"): ("left", 50000)},
    )  # fmt: skip
    first, second = sorted(told.flows, key=lambda one: one.job)
    assert (first.job, first.protocol, first.dst_port, first.bytes) == ("a", "roce", 4791, 1e9)
    assert (second.path, second.src_port) == ("left", 50000)
    assert second.bytes == pytest.approx(0.2e9)
    assert first.id != second.id
    (table,) = told.tables.values()
    assert [path.links for path in table.paths] == [path.links for path in TABLE.paths]


def test_ways_through_different_pcie_links_are_different() -> None:
    other = QueuePairRoute("b", "mlx5_0", SRC, DST)
    told = shared({way("a"): 1e9, other: 1e9}, inside={way("a"): (UP,)}, capacities={UP: 4e9})
    assert len(told.tables) == 2
    assert sorted(table.paths[0].links[0] for table in told.tables.values()) == [f"{SRC}>", UP]
    assert told.capacities == {UP: 4e9}
    deep = tuple(f"link{number}" for number in range(MAX_HOPS))
    told = shared({way("a"): 1e9}, inside={way("a"): deep})
    assert next(iter(told.tables.values())).paths[0].links == TABLE.paths[0].links


def test_without_a_known_path_the_ends_are_told() -> None:
    (table,) = shared({way("a"): 1e9}, tables={}, inside={way("a"): (UP,)}).tables.values()
    assert table.paths == (Path(queue_pair_records.DIRECT, (UP, f"{SRC}>", f">{DST}")),)


def test_guesses_are_marked_as_such() -> None:
    rates = {way("a"): 1e9, way("b"): 1e9, way("c"): 1.0}
    measured = JobProfile("b", 0.1, 0.05, 7e12, 8.0, period_s=0.2)
    own, guess = merged([measured], rates_by_job(rates), {"a": 4.0})
    assert own == measured
    assert (guess.job, guess.weight, guess.confidence) == ("a", 4.0, 0.0)
    assert guess.bytes_to == ((DST, 1e9),)
    assert quantise.profile(guess).provisional


def test_work_that_is_unknown_is_assumed_alike_for_tcp_and_rdma() -> None:
    """It is published as unknown, and assumed in the view, or a plan would do nothing for it."""
    measured = [JobProfile(job, 0.1, 0.05, 0.0, 8.0, period_s=0.2) for job in "az"]
    told = merged(measured, rates_by_job({way("a"): 1e9}), {})
    assert [(one.work, one.period_s, one.confidence) for one in told] == [(0.0, 0.2, 1.0)] * 2
    first, second = (merge(one.job, {"h1": quantise.profile(one)}) for one in told)
    assert first.work == second.work > 0
    assert first.assumed == second.assumed == EQUAL


def test_what_sockets_beside_rdma_seem_to_do_is_no_iteration() -> None:
    """Each guess from them is another, and with it the bytes of an iteration would be."""
    aside = JobProfile(
        "a", 0.3, 0.3, 0.0, 1.0, period_s=0.4, bytes_to=((DST, 1e5),), confidence=0.0
    )
    rates = rates_by_job({way("a"): 1e9})
    views = []
    for period, size in ((0.2, 1e5), (0.4, 1e5), (3.0, 4e9)):
        guess = replace(aside, compute_s=period, period_s=period, bytes_to=((DST, size),))
        (told,) = merged([guess], rates, {})
        views.append((told, informative([guess], rates)))
        assert (told.period_s, told.bytes_to) == (1.0, ((DST, 1e9),))
    assert all(one == views[0] for one in views)
    for one in (
        replace(aside, confidence=0.5),  # measured: it does tell the iteration
        replace(aside, work=1e12),
        replace(aside, bytes_to=((DST, 1e9),)),  # clearly more than by RDMA
        replace(aside, job="b"),
    ):
        assert informative([one], rates) == [one]


def records(name: str, source: str, job: str, on: str) -> tuple[list[Record], QueuePairRoute]:
    """All that one host says that has a job on one of two paths in the middle."""
    own = QueuePairRoute(job, "mlx5_0", source, TO)
    ways = tuple(
        Path(side, (f"{source}>", f">{side}", f">{TO}"), (port,))
        for side, port in (("left", 50000), ("right", 50001))
    )
    more = queue_pair_records.shared_flows(
        {own: 1e9}, {(source, TO): PathTable(source, TO, ways)}, {}, {f"{source}>": 12e9}, {},
        {own: (on, 50000)},
    )  # fmt: skip
    (guess,) = merged((), rates_by_job({own: 1e9}), {})
    ends = FarEnds().update(more.pairs(OWNERS))
    told = rdma_flows.paths(more, ends)
    capacities = dict(
        links(tuple(told.values()), (), PathsConfig(), more.capacities).links
    ) | {">left": 1e9, ">right": 1e9}  # fmt: skip
    profile = quantise.profile(replace(guess, bytes_to=(("far", 1e9),)))
    return [
        member(name),
        record(name, "profile", job, profile),
        *(record(name, "flows", of, said) for of, said in
          rdma_flows.flows({}, more, ends, {}, 1e6).items()),
        *(record(name, "paths", end, paths) for end, paths in told.items()),
        record(name, "links", "", Links(tuple(sorted(capacities.items())))),
    ], own  # fmt: skip


def gossiped() -> tuple[ClusterView, dict[str, QueuePairRoute]]:
    store, ways = Store(Settings()), {}
    for name, source, job in (("h1", "198.18.1.1", "a"), ("h2", "198.18.2.1", "b")):
        said, ways[name] = records(name, source, job, "left")
        for one in said:
            store.put(held(one), 0.0)
    store.put(held(member("far")), 0.0)
    return build(store, (), "rules").view, ways


def test_jobs_of_two_hosts_are_put_on_different_paths() -> None:
    """Neither sees the other's traffic: only together they know that one has to move."""
    view, ways = gossiped()
    assert {flow.protocol for flow in view.flows} == {"roce"}
    assert {flow.path for flow in view.flows} == {"left"}
    agreed = plan(view)
    said = [(one.flow, one.path) for one in agreed.flows]
    found = {name: queue_pair_records.planned(said, name, [own])[own] for name, own in ways.items()}
    assert sorted(found.values()) == ["left", "right"]
    (mover,) = [name for name, path in found.items() if path == "right"]
    own = ways[mover]
    known = ShimInputs(
        cluster=agreed, member=mover, ways=(own,),
        tables={(own.source, TO): PathTable(own.source, TO, (
            Path("left", (), (50000,)), Path("right", (), (50001,))))},
    )  # fmt: skip
    (job,) = shim_plan.jobs([own.job], known, {})
    assert job.ports == ((TO, (50001,)),)
    assert shim_plan.jobs([own.job], replace(known, member="somebody else"), {})[0].ports == ()
