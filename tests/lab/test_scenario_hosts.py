"""Hosts, addresses and bytes of a scenario."""

from __future__ import annotations

import ipaddress

import pytest

from hostcc.lab.scenario import BackgroundSpec, FabricSpec, JobSpec, Scenario
from hostcc.lab.scenario_hosts import bytes_per_iteration, goodput_fraction, hosts_of, ideal_seconds

BENCHMARKING = ipaddress.ip_network("198.18.0.0/15")


def test_hosts_are_distinct_inside_the_benchmarking_range_and_alternate() -> None:
    scenario = Scenario(
        job=(JobSpec(name="a", comm_ms=1), JobSpec(name="b", hosts=4, pattern="allreduce")),
        background=(BackgroundSpec(kind="bulk"), BackgroundSpec(kind="bulk")),
    )
    hosts = hosts_of(scenario)
    assert [host.name for host in hosts] == [f"h{number}" for number in range(1, 11)]
    assert len({host.address for host in hosts} | {host.gateway for host in hosts}) == 20
    assert all(ipaddress.ip_address(host.address) in BENCHMARKING for host in hosts)
    assert all(ipaddress.ip_address(host.address6).is_private for host in hosts)
    assert [host.left for host in hosts] == [True, False] * 5
    assert len({host.owner for host in hosts if host.background}) == 2


@pytest.mark.parametrize("rate", [100.0, 200.0, 1000.0])
def test_communication_time_and_bytes_agree(rate: float) -> None:
    fabric = FabricSpec(rate_mbit=rate)
    job = JobSpec(name="a", compute_ms=132, comm_ms=108)
    packets = bytes_per_iteration(job, fabric) / 1448
    assert packets * 1514 * 8 / (rate * 1e6) == pytest.approx(0.108, rel=1e-4)
    assert ideal_seconds(job, fabric) == pytest.approx(0.240, rel=1e-4)


def test_given_bytes_win_and_ring_senders_share_the_link() -> None:
    fabric = FabricSpec()
    job = JobSpec(name="a", bytes=1_000_000, hosts=4, pattern="allreduce")
    assert bytes_per_iteration(job, fabric) == 1_000_000
    rate = 200e6 / 8 * goodput_fraction(fabric)
    assert ideal_seconds(job, fabric) == pytest.approx(2 * 1_000_000 / rate)
