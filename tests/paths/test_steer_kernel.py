"""Live flows change their path and lose nothing."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from hostcc.lab import netns
from hostcc.lab.leafspine import LeafSpine
from hostcc.lab.leafspine_plan import LeafSpineSpec
from hostcc.lab.topology import Ipv6Hash
from hostcc.paths.hooks import Way
from hostcc.paths.steer_kernel import OutgoingFlow
from hostcc.paths.steering_messages import Broken
from tests.paths.steer_stage import PORT, Pair, counters, until

pytestmark = pytest.mark.kernel

WIRE = range(20000, 20032)
"""Below the ephemeral ports, so that no stream begins with one of them."""
LABELS = 48
"""By chance so many show no more than two of four paths at one boot in 10^13."""


@pytest.fixture(scope="module")
def fabric() -> Iterator[LeafSpine]:
    with LeafSpine(LeafSpineSpec(spines=4, ipv6_hash=Ipv6Hash.PORTS)) as built:
        yield built


@pytest.mark.parametrize("v6", [False, True])
@pytest.mark.parametrize("way", list(Way))
def test_many_moves_of_a_checksummed_stream(fabric: LeafSpine, v6: bool, way: Way) -> None:
    with Pair(fabric, v6=v6, way=way) as pair:
        before = counters(fabric, "h1", "Tcp")
        stream = pair.stream()
        agent = pair.agents["h1"]
        moves = refused = 0
        while moves < 250:
            port = WIRE[(moves * 7 + refused) % len(WIRE)]
            if not agent.sender.free(stream.flow, port) or agent.sender.active(stream.flow) == port:
                refused += 1
                pair.tick()
                continue
            pair.move(stream.flow, port)
            moves += 1
            if not moves % 10:
                pair.tick()
        (row,) = pair.kernels["h1"].leaving()
        until(lambda: pair.kernels["h1"].leaving()[0].packets > row.packets, "packets")
        agent.revert(stream.flow)
        assert stream.finish() > 0
        assert pair.kernels["h1"].leaving() == []
        assert sum(one.packets for one in pair.kernels["h2"].arriving()) > 0
        after = counters(fabric, "h1", "Tcp")
        assert after["EstabResets"] == before["EstabResets"]
        for name in ("h1", "h2"):
            assert counters(fabric, name, "Tcp")["InCsumErrors"] == 0
        until(lambda: _settled(pair), "releases")


def _settled(pair: Pair) -> bool:
    pair.tick()
    return not pair.kernels["h1"].guards() and not pair.kernels["h2"].arriving()


def test_a_receiver_that_lost_its_tables_costs_a_round_trip(fabric: LeafSpine) -> None:
    with Pair(fabric) as pair:
        stream = pair.stream()
        pair.move(stream.flow, WIRE[0])
        until(lambda: pair.kernels["h1"].leaving()[0].packets > 100, "packets")
        pair.kernels.pop("h2").remove()  # a roll-back in mid-flight
        del pair.agents["h2"]
        until(lambda: pair.kernels["h1"].leaving()[0].broken is Broken.RESET, "the kernel")
        pair.tick()
        assert pair.kernels["h1"].leaving() == []
        assert "reset" in pair.agents["h1"].sender.refusals[stream.flow]
        arrived = counters(fabric, "h2", "Tcp")["InSegs"]
        until(lambda: counters(fabric, "h2", "Tcp")["InSegs"] > arrived + 100, "the stream")
        assert stream.finish() > 0
        pair.start("h2")


def test_a_silent_agent_lets_its_flows_go_plain(fabric: LeafSpine) -> None:
    with Pair(fabric) as pair:
        stream = pair.stream()
        pair.move(stream.flow, WIRE[1])
        pair.kill("h1")
        pair.start("h1", stale_s=0.2)
        assert pair.kernels["h1"].adopted
        assert pair.kernels["h1"].leaving() == []  # a new agent begins plain
        pair.move(stream.flow, WIRE[2])
        until(lambda: _beaten(pair).packets > 0, "packets")
        until(lambda: _still(pair), "the heartbeat to go stale")
        assert stream.finish() > 0


def _beaten(pair: Pair) -> OutgoingFlow:
    pair.tick()
    return pair.kernels["h1"].leaving()[0]


def _still(pair: Pair) -> bool:
    """No packet was rewritten while many were sent."""
    sent = counters(pair.fabric, "h1", "Tcp")["OutSegs"]
    before = pair.kernels["h1"].leaving()[0].packets
    until(lambda: counters(pair.fabric, "h1", "Tcp")["OutSegs"] > sent + 200, "traffic")
    return pair.kernels["h1"].leaving()[0].packets == before


def test_a_real_connection_takes_its_port_back(fabric: LeafSpine) -> None:
    with Pair(fabric) as pair:
        one = pair.stream()
        pair.move(one.flow, 20999)
        until(lambda: pair.kernels["h1"].leaving()[0].packets > 0, "packets")
        server = pair.stream(port=PORT + 1)  # another destination port: no conflict
        assert server.finish() >= 0
        assert pair.kernels["h1"].leaving()[0].broken is Broken.OK
        with pytest.raises(OSError, match=r"refused|reset"):
            _connect(pair, 20999)  # the listener has left; the SYN is what matters
        assert pair.kernels["h1"].leaving()[0].broken is Broken.COLLISION
        pair.tick()
        assert one.finish() > 0


def _connect(pair: Pair, source: int) -> None:
    def connect() -> None:
        with socket.socket() as sock:
            sock.bind(("", source))
            sock.connect((pair.addresses["h2"], PORT))

    netns.inside(pair.fabric.namespace("h1"), connect)


@pytest.mark.parametrize("v6", [False, True])
def test_path_mtu_discovery_reaches_a_moved_flow(fabric: LeafSpine, v6: bool) -> None:
    """Routers quote the port on the wire; without translation the stream would stall."""
    with Pair(fabric, v6=v6) as pair:
        stream = pair.stream()
        pair.move(stream.flow, WIRE[3])
        until(lambda: pair.kernels["h1"].leaving()[0].packets > 0, "packets")
        narrow = [f"link set {link.spine_name} mtu 1300" for link in fabric.links if not link.leaf]
        netns.batch("ip", narrow, fabric.namespace("leaf1"))
        try:
            arrived = counters(fabric, "h2", "Tcp")["InSegs"]
            until(lambda: counters(fabric, "h2", "Tcp")["InSegs"] > arrived + 500, "the stream")
            assert pair.kernels["h1"].leaving()[0].broken is Broken.OK
            assert stream.finish() > 0
        finally:
            wide = [line.replace("1300", "1500") for line in narrow]
            netns.batch("ip", wide, fabric.namespace("leaf1"))


def test_ipv6_flow_label_moves_a_flow_without_the_receiver() -> None:
    with (
        LeafSpine(LeafSpineSpec(spines=4, ipv6_hash=Ipv6Hash.LABEL)) as fabric,
        Pair(fabric, v6=True) as pair,
    ):
        stream = pair.stream()
        busy = set()
        for label in range(1, LABELS + 1):
            pair.kernels["h1"].label(stream.flow, label * 40503 & 0xFFFFF)
            busy.add(_busiest(fabric))
            if len(busy) >= 3:
                break
        assert len(busy) >= 3
        assert pair.kernels["h2"].arriving() == []
        pair.kernels["h1"].plain(stream.flow)
        assert stream.finish() > 0


def _busiest(fabric: LeafSpine) -> int:
    before = sent(fabric)
    until(lambda: max(_less(sent(fabric), before)) > 500_000, "traffic")
    before = sent(fabric)  # what was on its way with the last label has gone
    until(lambda: max(_less(sent(fabric), before)) > 500_000, "traffic")
    moved = _less(sent(fabric), before)
    return moved.index(max(moved))


def _less(after: list[int], before: list[int]) -> list[int]:
    return [new - old for old, new in zip(before, after, strict=True)]


def sent(fabric: LeafSpine) -> list[int]:
    """Bytes that the first leaf has sent to each spine."""

    def read() -> list[int]:
        rows = Path("/proc/thread-self/net/dev").read_text().splitlines()
        found = {row.split(":")[0].strip(): int(row.split()[9]) for row in rows if ":" in row}
        return [found[f"spine{n + 1}"] for n in range(4)]

    return netns.inside(fabric.namespace("leaf1"), read)


@pytest.mark.parametrize("v6", [False, True])
def test_new_connections_start_on_a_wanted_port(fabric: LeafSpine, v6: bool) -> None:
    with Pair(fabric, v6=v6) as pair:
        kernel, dst = pair.kernels["h1"], pair.addresses["h2"]
        group = fabric.cgroup_of(fabric.host(1))
        kernel.attach_connect(group)
        # Not the ports of the last run, nor any that the kernel has given to others: those wait in
        # TIME_WAIT, also for the other family.
        wanted = [21110, 21111] if v6 else [21100, 21101]
        kernel.set_ports(dst, 0, wanted)
        streams = [pair.stream(port=PORT + n) for n in range(3)]
        ports = [stream.flow.sport for stream in streams]
        assert sorted(ports[:2]) == wanted, kernel.bound(dst)
        assert ports[2] not in wanted  # used up: the kernel chooses
        assert kernel.bound(dst) == (2, 1)
        own = 22001 if v6 else 22000  # its owner has chosen
        streams.append(pair.stream(port=PORT + 3, source=own))
        assert streams[-1].flow.sport == own
        kernel.set_ports(dst, PORT + 4, [wanted[0] + 100])  # a port's own list comes first
        streams.append(pair.stream(port=PORT + 4))
        assert streams[-1].flow.sport == wanted[0] + 100
        for stream in streams:
            assert stream.finish() > 0
