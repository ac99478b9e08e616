"""Flows that no socket carries are told with those of sockets."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hostcc.config.sections.paths import PathsConfig
from hostcc.coord.core.payloads import MAX_FLOWS, MAX_HOPS, FlowEntry, Flows, Paths, encode
from hostcc.daemon.steering import flow_records, rdma_flows
from hostcc.daemon.steering.nics import Nic
from hostcc.daemon.steering.rdma_flows import RdmaFlows
from hostcc.model import Flow, Path, PathTable

pytestmark = pytest.mark.unit
PCIE = "h/pci/0000:01:00.0/up"
SRC, DST = f"roce/10.0.0.1/{PCIE}", "10.0.0.2"
FLOW = Flow("roce-1", "train", SRC, DST, 5e6, protocol="roce", dst_port=4791, path="p1")
TABLE = PathTable(
    SRC, DST, (Path("p1", (PCIE, "10.0.0.1>", ">s1", ">10.0.0.2"), tuple(range(50000, 50040))),)
)
MORE = RdmaFlows((FLOW,), {(SRC, DST): TABLE}, {PCIE: 4e9, "unused": 1.0})
ENDS = {(SRC, DST): "b:123456"}
TCP = {"train": Flows((FlowEntry("t", "b", 1e9),)), "other": Flows((FlowEntry("o", "b", 1e9),))}


def test_ends_of_members_only() -> None:
    assert MORE.pairs({DST: "b"}) == {(SRC, DST): "b"}
    assert MORE.pairs({}) == {}
    assert MORE.jobs() == {"train"}


def test_beside_those_of_sockets() -> None:
    told = rdma_flows.flows(TCP, MORE, ENDS, {}, 1e6)
    by_id = {entry.id: entry for entry in told["train"].flows}
    assert set(by_id) == {"t", "roce-1"}
    one = by_id["roce-1"]
    assert (one.protocol, one.dst, one.dst_port, one.path) == ("roce", "b:123456", 4791, "p1")
    assert [entry.id for entry in told["other"].flows] == ["o"]
    assert (
        rdma_flows.flows(TCP, MORE, {}, {}, 1e6)["train"]
        == rdma_flows.flows(TCP, RdmaFlows(), ENDS, {}, 1e6)["train"]
    )  # nobody has its address


def test_noise_changes_nothing() -> None:
    first = rdma_flows.flows({}, MORE, ENDS, {}, 1e6)
    noisy = replace(MORE, flows=(replace(FLOW, bytes=FLOW.bytes * 1.03),))
    assert rdma_flows.flows({}, noisy, ENDS, first, 1e6) == first
    small = replace(MORE, flows=(replace(FLOW, bytes=0.7e6),))
    assert rdma_flows.flows({}, small, ENDS, {}, 1e6) == {}
    assert rdma_flows.flows({}, small, ENDS, first, 1e6) != {}  # it was large


def test_of_too_many_the_largest_are_told() -> None:
    many = tuple(
        replace(FLOW, id=f"roce-{number}", bytes=1e6 + number * 1e5)
        for number in range(MAX_FLOWS + 5)
    )
    told = rdma_flows.flows(TCP, replace(MORE, flows=many), ENDS, {}, 1e6)["train"]
    assert len(told.flows) == MAX_FLOWS
    assert {"t", f"roce-{MAX_FLOWS + 4}"} <= {entry.id for entry in told.flows}
    assert "roce-0" not in {entry.id for entry in told.flows}
    encode(told)


def test_ways_and_the_capacities_on_them() -> None:
    told = rdma_flows.paths(MORE, ENDS)
    (entry,) = told["b:123456"].paths
    assert (entry.id, entry.links[0], len(entry.ports)) == (
        "p1",
        PCIE,
        flow_records.MAX_PORTS_PUBLISHED,
    )
    links = dict(
        flow_records.links(
            told.values(), (Nic("eth0", ("10.0.0.1",), 1e9),), PathsConfig(), MORE.capacities
        ).links
    )
    assert links[PCIE] == 4e9
    assert links[">s1"] == 1e9  # as fast as the slowest of this host's own on the way
    assert "unused" not in links
    assert rdma_flows.paths(MORE, {}) == {}
    long = PathTable(SRC, DST, (Path("p", tuple(map(str, range(MAX_HOPS + 1)))),))
    assert rdma_flows.paths(replace(MORE, tables={(SRC, DST): long}), ENDS)["b:123456"] == Paths(())
