"""The transport shim in RDMA clients of the distribution: UCX, OpenMPI, rdma_cm, libfabric."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from hostcc.verbs.build import VERBS_HEADER
from tests.vm.test_oldest_kernel import pytestmark as of_the_vm
from tests.vm.test_shim import CLASS, Guest

PROGRAMS = ("ucx_perftest", "mpirun", "rping", "fi_pingpong")
pytestmark = [
    *of_the_vm,
    pytest.mark.skipif(
        importlib.util.find_spec("pyverbs") is None
        or not VERBS_HEADER.exists()
        or not all(map(shutil.which, PROGRAMS)),
        reason=f"no pyverbs, libibverbs-dev, {', '.join(PROGRAMS)}; tools/setup gets them",
    ),
]
UCX_PORT, UCX_CLASS = 65472, 106
"""UCX's own, with or without the shim."""
WAYS = ("without", "no_agent", "planned")


@pytest.fixture(scope="module")
def guest() -> Iterator[Guest]:
    made = Guest([sys.executable, "-m", "tests.vm.clients_guest"])
    yield made
    made.close()


def ran(guest: Guest, name: str) -> tuple[dict[str, Any], int]:
    """What came of a client in all ways, and the planned port; with the same results."""
    answer = guest(name)
    report = answer[name]
    for way in WAYS:
        assert set(report[way]["status"]) == {0}, report[way]
        assert any(report[way]["result"]), report[way]
        assert report[way]["result"] == report["without"]["result"]
        assert report[way]["wire"], report[way]
    assert report["no_agent"]["counts"] == []
    return report, answer["ports"][1]


def places(report: dict[str, Any], way: str) -> list[tuple[int, int]]:
    """(Port, class) of each kind of packet."""
    return [(port, traffic_class) for _, port, traffic_class, _ in report[way]["wire"]]


@pytest.mark.parametrize("name", ["ucx", "mpi"])
def test_ucx_takes_path_and_class_of_the_plan(guest: Guest, name: str) -> None:
    """The port and the class that UCX fills in are not the job's choice."""
    report, planned = ran(guest, name)
    for way in ("without", "no_agent"):
        assert places(report, way) == [(UCX_PORT, UCX_CLASS)]
    ((path, port, traffic_class, _),) = report["planned"]["wire"]
    assert (path, port, traffic_class) == ("p1", planned, CLASS)


@pytest.mark.parametrize("name", ["rping", "fabric"])
def test_connections_by_rdma_cm_take_path_and_class_of_the_plan(guest: Guest, name: str) -> None:
    """Their flow label is the kernel's, made of the numbers of two ports."""
    report, planned = ran(guest, name)
    for way in ("without", "no_agent"):
        assert {traffic_class for _, traffic_class in places(report, way)} == {0}
    ((path, port, traffic_class, _),) = report["planned"]["wire"]
    assert (path, port, traffic_class) == ("p1", planned, CLASS)


def test_a_program_that_makes_rdma_cms_transitions_keeps_its_path(guest: Guest) -> None:
    """Its flow label looks like a choice of its own; its class was left open."""
    report, planned = ran(guest, "rping_own")
    assert {traffic_class for _, traffic_class in places(report, "planned")} == {CLASS}
    assert planned not in {port for port, _ in places(report, "planned")}


def test_ucx_is_moved_while_it_sends(guest: Guest) -> None:
    """It asserts that its queue pair is ready before it posts."""
    answer = guest("moved")
    report, (first, second) = answer["moved"], answer["ports"]
    assert report["status"] == [0, 0], report
    assert [row[:3] for row in report["before"]] == [["p0", first, CLASS]]
    assert [row[:3] for row in report["after"]] == [["p1", second, CLASS]]
    moved = [qp for one in report["counts"] for qp in one["qps"]]
    assert sum(qp["moves"] for qp in moved) >= 1
    assert sum(qp["failed"] for qp in moved) == 0
    assert sum(qp["bytes"] for qp in moved) > 0
