"""Every peer of a job has a window of its own, on real traffic; none is left behind."""

from __future__ import annotations

import ipaddress
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from hostcc.bpf.loader.object import BpfObject
from hostcc.bpf.loader.objects import object_path
from hostcc.lab.scenario import FabricSpec
from hostcc.mltcp.backend import Records
from hostcc.mltcp.kernel import MltcpKernel
from hostcc.mltcp.kernel_names import STRUCT_OPS
from hostcc.mltcp.params import JobParams, Variant
from tests.mltcp.stage import SLOT, Peer, Stage, delivered, follow, mltcp_from, state, until

pytestmark = pytest.mark.kernel

JOB = JobParams(name="many", variant=Variant.HOSTCC)
BYTES = 300_000
FAR_US = 10_000
OTHER = 2
"""Slot of a second job."""


@pytest.fixture(scope="module")
def lab() -> Iterator[Stage]:
    with Stage(FabricSpec(rate_mbit=200, buffer_packets=60, base_rtt_us=FAR_US)) as made:
        yield made


@pytest.fixture
def stage(lab: Stage) -> Iterator[Stage]:
    yield lab
    lab.clear()


@contextmanager
def hostcc() -> Iterator[tuple[MltcpKernel, BpfObject]]:
    with mltcp_from(object_path("mltcp"), {Variant.HOSTCC: STRUCT_OPS[Variant.HOSTCC]}) as made:
        yield made


def measured(obj: BpfObject) -> Records:
    """Windows of which the base RTT is known."""
    rows: Records = obj.map("path_states").lookup_batch()[1]
    return rows[rows["base_us"] > 0]


def held(obj: BpfObject) -> Records:
    """Windows that sockets hold."""
    rows: Records = obj.map("path_states").lookup_batch()[1]
    return rows[rows["users"] > 0]


def kept(obj: BpfObject) -> int:
    """Windows that sockets hold, and entries by which they are found."""
    return len(held(obj)) + len(obj.map("path_numbers").keys())


def peers(rows: Records) -> list[str]:
    """Whose they are; an IPv4 address is mapped."""
    packed = [ipaddress.IPv6Address(row["key"]["peer"].tobytes()) for row in rows]
    return sorted(str(address.ipv4_mapped or address) for address in packed)


def loopback(number: int) -> str:
    return f"127.0.1.{number}"


def short_hash(address: str) -> int:
    """Three bits of a multiplicative hash, as good as any other of three bits."""
    packed = ipaddress.ip_address(address).packed
    return (int.from_bytes(packed, sys.byteorder) * 2654435761 & 0xFFFFFFFF) >> 29


def dial(
    stage: Stage, sender: Peer, addresses: list[str], flows: int = 1, first_port: int = 0
) -> Peer:
    """Connect to listeners of a process that is no part of the job; from ports of their own,
    if asked for, as what arrives is told by the sender's port."""
    receiver = stage.peer(0, "other")
    for number, address in enumerate(addresses):
        port = receiver.ask("listen", address=address)
        own = first_port + number if first_port else 0
        sender.ask("connect", address=address, port=port, flows=flows, source_port=own)
    return receiver


def test_near_and_far_peer_have_nothing_in_common(stage: Stage) -> None:
    """Whatever a short hash makes of their addresses."""
    far = stage.host(1).address
    near = next(x for x in map(loopback, range(1, 255)) if short_hash(x) == short_hash(far))
    with hostcc() as (kernel, obj):
        follow(kernel, stage, JOB)
        sender, beyond = stage.pair()
        stage.dial(sender, beyond, flows=2)
        here = dial(stage, sender, [near] * 3, first_port=20_000)
        sender.ask("send", sizes=[BYTES], gaps_ms=[0])
        rows = measured(obj)
        assert len(rows) == 2
        assert peers(rows) == sorted([near, far])
        shorter, longer = np.sort(rows, order="base_us")
        assert shorter["base_us"] < FAR_US / 2 < longer["base_us"]
        assert (shorter["users"], longer["users"]) == (3, 2)
        sent = sender.ask("close")
        assert here.ask("results", count=3) | beyond.ask("results", count=2) == sent
        until(lambda: not len(held(obj)), "windows to be free")


def test_all_to_all_over_64_hosts(stage: Stage) -> None:
    addresses = [loopback(number) for number in range(1, 65)]
    with hostcc() as (kernel, obj):
        follow(kernel, stage, JOB)
        kernel.set_job(OTHER, JOB)
        kernel.attach_cgroup(OTHER, stage.group(0, "second"))
        senders = [stage.peer(0), stage.peer(0, "second")]
        receivers = [
            dial(stage, sender, addresses, first_port=first)
            for sender, first in zip(senders, (20_000, 21_000), strict=True)
        ]
        for sender in senders:
            sender.ask("send", sizes=[64 * 50_000] * 2, gaps_ms=[20] * 2)
        rows = measured(obj)
        for slot in (SLOT, OTHER):
            mine = rows[rows["key"]["slot"] == slot]
            assert peers(mine) == sorted(addresses)
            assert (mine["users"] == 1).all()
            assert state(kernel, slot)["bytes_acked"] >= 2 * 64 * 50_000
        assert len(obj.map("path_numbers").keys()) == 2 * 64
        for sender, receiver in zip(senders, receivers, strict=True):
            assert delivered(sender, receiver) == 2 * 64 * 50_000
        until(lambda: not kept(obj), "windows to be free")


def test_both_families_and_sockets_that_connect_again(stage: Stage) -> None:
    there = stage.host(1)
    with hostcc() as (kernel, obj):
        follow(kernel, stage, JOB)
        sender, receiver = stage.pair()
        stage.dial(sender, receiver)
        for v6 in (False, True, True):
            stage.dial(sender, receiver, v6=v6)
        found = {peer: int(row["users"]) for row in held(obj) for peer in peers(np.array([row]))}
        assert found == {there.address: 2, str(ipaddress.ip_address(there.address6)): 2}
        port = dial(stage, sender, [loopback(1)]).ask("listen", address=loopback(2))
        sender.ask("reconnect", address=loopback(2), port=port)
        found = {peer: int(row["users"]) for row in held(obj) for peer in peers(np.array([row]))}
        assert found[there.address] == found[loopback(1)] == found[loopback(2)] == 1


def test_without_a_free_window_flows_are_plain(stage: Stage) -> None:
    with hostcc() as (kernel, obj):
        follow(kernel, stage, JOB)
        windows = obj.map("path_states")
        numbers, rows = windows.lookup_batch()
        rows["users"] = 1
        windows.update_batch(numbers, rows)
        sender, receiver = stage.pair()
        stage.dial(sender, receiver, flows=2)
        assert sender.ask("controls") == [kernel.ca_names["hostcc"]] * 2
        sent = 6_000_000
        sender.ask("send", sizes=[sent], gaps_ms=[0])

        def more() -> None:
            nonlocal sent
            sender.ask("send", sizes=[1_000_000], gaps_ms=[0])
            sent += 1_000_000

        # From ten packets; a time-out on a busy machine may just have made them small.
        until(
            lambda: min(kernel.flows([stage.namespace(0)])["cwnd"]) > 20,
            "windows to grow",
            meanwhile=more,
        )
        assert len(obj.map("path_numbers").keys()) == 0
        assert (windows.lookup_batch()[1]["users"] == 1).all()
        until(lambda: state(kernel)["busy"] == 0, "the last acknowledgement")
        now = state(kernel)
        assert now["flows"] == 2
        assert now["bytes_acked"] >= sent
        assert delivered(sender, receiver) == sent
        until(lambda: state(kernel)["flows"] == 0, "the end of the connections")
        rows["users"] = 0
        windows.update_batch(numbers, rows)
        stage.dial(sender, receiver)
        assert peers(held(obj)) == [stage.host(1).address]


def test_connections_that_come_and_go_leave_no_window(stage: Stage) -> None:
    """Several processes open and close to the same few peers, all at once."""
    with hostcc() as (kernel, obj):
        follow(kernel, stage, JOB)
        addresses = [loopback(number) for number in range(1, 4)]
        receiver = stage.peer(0, "other")
        ports = [receiver.ask("listen", address=address) for address in addresses]
        senders = [stage.peer(0) for _ in range(4)]
        for seed in range(9):
            for number, sender in enumerate(senders):
                at = (seed + number % 2) % 3
                sender.start("churn", address=addresses[at], port=ports[at], times=60, seed=seed)
            for sender in senders:
                assert sender.answer() == 60
        until(lambda: not state(kernel)["flows"] and not kept(obj), "connections and their windows")
