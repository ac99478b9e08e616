"""The view that this host plans by."""

from __future__ import annotations

import pytest

from hostcc.daemon.rdma.queue_pair_flows import QueuePairRoute, view
from hostcc.model import JobProfile, Path, PathTable
from hostcc.schedule.plan import plan

pytestmark = pytest.mark.unit
SRC, DST = "198.18.1.1", "198.18.2.1"
TABLE = PathTable(
    SRC,
    DST,
    (
        Path("left", (f"{SRC}>", ">198.19.0.2", f">{DST}"), (50000, 50002)),
        Path("right", (f"{SRC}>", ">198.19.1.2", f">{DST}"), (50001, 50003)),
    ),
)


def way(job: str, device: str = "mlx5_0") -> QueuePairRoute:
    return QueuePairRoute(job, device, SRC, DST)


def test_two_jobs_get_a_path_each() -> None:
    rates = {way("a"): 1e9, way("b"): 1e9}
    now = view(rates, {(SRC, DST): TABLE}, {}, {}, {}, {}, {})
    paths = {one.flow: one.path for one in plan(now).flows}
    assert sorted(paths.values()) == ["left", "right"]
    assert set(paths) == {way("a").flow, way("b").flow}


def test_who_has_a_good_path_stays_there() -> None:
    rates = {way("a"): 1e9, way("b"): 1e9}
    for first, second in (("left", "right"), ("right", "left")):
        on = {way("a"): first, way("b"): second}
        now = view(rates, {(SRC, DST): TABLE}, {}, {}, {}, on, {})
        paths = {one.flow: one.path for one in plan(now).flows}
        assert paths == {way("a").flow: first, way("b").flow: second}


def test_pcie_links_are_links() -> None:
    """Jobs that share nothing but a PCIe link get different levels, the heavier weight first."""
    rates = {way("a"): 3e9, way("b", "mlx5_1"): 3e9}
    inside = dict.fromkeys(rates, ("host/pci/0000:00:01.0/up",))
    now = view(rates, {}, inside, {"host/pci/0000:00:01.0/up": 1e9}, {}, {}, {"b": 4.0})
    levels = {one.job: one.level for one in plan(now).jobs}
    assert levels["b"] < levels["a"]
    assert ("host/pci/0000:00:01.0/up", 1e9) in now.links


def test_what_was_measured_counts() -> None:
    measured = JobProfile("a", 0.1, 0.05, 7e12, 8.0, period_s=0.2)
    now = view({way("a"): 1e9}, {}, {}, {}, {"a": measured}, {}, {"a": 2.0})
    assert (now.jobs[0].work, now.jobs[0].weight, now.jobs[0].compute_s) == (7e12, 2.0, 0.1)
    assert now.flows[0].bytes == pytest.approx(0.2e9)


def test_who_sends_nothing_is_not_in_it() -> None:
    assert view({way("a"): 0.0}, {}, {}, {}, {}, {}, {}).jobs == ()
