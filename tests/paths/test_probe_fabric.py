"""Probing the kernel's own ECMP, checked against where packets really go."""

from __future__ import annotations

import functools
import json
import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hostcc.lab import netns
from hostcc.lab.leafspine import LeafSpine
from hostcc.lab.leafspine_plan import LeafSpineSpec
from hostcc.paths import link_events, source_ports
from hostcc.paths.packets import TCP, UDP, Target
from hostcc.paths.prober import search
from hostcc.paths.search import SearchResult, SearchSettings
from tests.patience import until

pytestmark = pytest.mark.kernel

SPINES = 3
MISSED_RISK = 1e-9
"""A kernel hashes the same ports to the same paths until it boots again: with the default of
1 %, one boot in a hundred would fail every run."""
ARRIVING = 5
"""Probes that reach the host whose connection they imitate."""


@pytest.fixture(scope="module")
def fabric() -> Iterator[LeafSpine]:
    with LeafSpine(LeafSpineSpec(spines=SPINES)) as built:
        yield built


def target(fabric: LeafSpine, v6: bool, protocol: int) -> Target:
    a, b = fabric.host(1), fabric.host(2)
    src, dst = (a.address6, b.address6) if v6 else (a.address, b.address)
    return Target(src, dst, protocol, 5201 if protocol == TCP else 4791)


def probed(
    fabric: LeafSpine, where: Target, settings: SearchSettings | None = None
) -> SearchResult:
    settings = settings or SearchSettings(risk=MISSED_RISK)
    return netns.inside(
        fabric.namespace("h1"), lambda: search(where, source_ports.candidate_ports(), settings)
    )


def tx_bytes(fabric: LeafSpine) -> list[int]:
    """Bytes that the first leaf has sent to each spine."""

    def read() -> list[int]:
        rows = Path("/proc/thread-self/net/dev").read_text().splitlines()
        found = {row.split(":")[0].strip(): int(row.split()[9]) for row in rows if ":" in row}
        return [found[f"spine{n + 1}"] for n in range(SPINES)]

    return netns.inside(fabric.namespace("leaf1"), read)


@pytest.mark.parametrize("v6", [False, True])
@pytest.mark.parametrize("protocol", [TCP, UDP])
def test_ports_take_the_paths_that_were_found(fabric: LeafSpine, v6: bool, protocol: int) -> None:
    where = target(fabric, v6, protocol)
    found = probed(fabric, where)
    assert len(found.paths) == SPINES
    assert found.distance == 4
    assert found.confidence > 0.98
    family = socket.AF_INET6 if v6 else socket.AF_INET
    kind = socket.SOCK_DGRAM if protocol == UDP else socket.SOCK_STREAM
    spine_of = {
        link.address6(of_spine=True) if v6 else link.address(of_spine=True): link.spine
        for link in fabric.links
    }

    def listen() -> socket.socket:
        sock = socket.socket(family, kind)
        sock.bind((where.dst, where.dst_port))
        if protocol == TCP:
            sock.listen(8)
        return sock

    def send(port: int) -> None:
        with socket.socket(family, kind) as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind((where.src, port))
            sock.connect((where.dst, where.dst_port))
            for _ in range(20):
                sock.send(b"x" * 1000)

    def check(spine: int, port: int) -> None:
        before = tx_bytes(fabric)

        def sent() -> list[int]:
            return [after - old for old, after in zip(before, tx_bytes(fabric), strict=True)]

        netns.inside(fabric.namespace("h1"), functools.partial(send, port))
        # The kernel sends on after the socket is closed; what is late would be the next port's.
        until(lambda: sent()[spine] > 20_000, lambda: f"port {port} on spine {spine}: {sent()}")
        after = sent()
        assert sum(after) - after[spine] < 5_000, (port, spine, after)

    with netns.inside(fabric.namespace("h2"), listen):
        for hops, ports in found.paths.items():
            check(spine_of[hops[1]], ports[0])


def test_probes_do_not_disturb_the_connection_they_imitate(fabric: LeafSpine) -> None:
    """Every port is probed, also the one that a live connection has."""
    where = target(fabric, v6=False, protocol=TCP)

    def listen() -> socket.socket:
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((where.dst, where.dst_port))
        sock.listen(8)
        return sock

    def connect() -> socket.socket:
        sock = socket.socket()
        sock.bind((where.src, 50005))
        sock.connect((where.dst, where.dst_port))
        return sock

    def dropped() -> dict[str, int]:
        text = Path("/proc/thread-self/net/snmp").read_text().splitlines()
        rows = [line.split()[1:] for line in text if line.startswith("Tcp:")]
        return {name: int(value) for name, value in zip(*rows, strict=True)}

    with (
        netns.inside(fabric.namespace("h2"), listen) as listener,
        netns.inside(fabric.namespace("h1"), connect) as client,
    ):
        server, _ = listener.accept()
        before = netns.inside(fabric.namespace("h2"), dropped)

        def arrived() -> int:
            now = netns.inside(fabric.namespace("h2"), dropped)
            return now["InCsumErrors"] - before["InCsumErrors"]

        packet_settings = SearchSettings(max_hops=4)
        found = netns.inside(
            fabric.namespace("h1"),
            lambda: search(where, [50005, 50006, 50007], packet_settings),
        )
        # and some that arrive:
        netns.inside(fabric.namespace("h1"), lambda: _arrive(where, 50005))
        until(lambda: arrived() >= ARRIVING, lambda: f"{ARRIVING} probes, not {arrived()}")
        after = netns.inside(fabric.namespace("h2"), dropped)
        assert set(found.ports) == {50005, 50006, 50007}
        with server:
            for _ in range(3):
                client.sendall(b"still here")
                assert server.recv(100) == b"still here"
                server.sendall(b"you too")
                assert client.recv(100) == b"you too"
    assert after["OutRsts"] == before["OutRsts"]
    assert after["EstabResets"] == before["EstabResets"]
    assert after["InCsumErrors"] - before["InCsumErrors"] == ARRIVING


def _arrive(where: Target, port: int) -> None:
    from hostcc.paths.probe_socket import ProbeSocket
    from hostcc.paths.search import Probe

    with ProbeSocket(where, 7) as sock:
        for token in range(1, ARRIVING + 1):
            sock.send(Probe(7 << 16 | token, 64, port))


def test_a_link_that_goes_down_changes_the_paths(fabric: LeafSpine) -> None:
    where = target(fabric, v6=False, protocol=UDP)
    link = fabric.links[1]
    events = netns.inside(fabric.namespace("leaf1"), link_events.LinkEvents)
    with fabric.link_down(link):
        found = probed(fabric, where)
        assert len(found.paths) == SPINES - 1
        assert link.address(of_spine=True) not in {hops[1] for hops in found.paths}
        assert "a link changed" in events.read()
    assert events.read()
    events.close()
    # The spine learns within a second that its link is back; until then its answers are lost.
    until(lambda: len(probed(fabric, where).paths) == SPINES, "all paths", 120.0)


def test_command_line(fabric: LeafSpine) -> None:
    words = [sys.executable, "-m", "hostcc", "probe", "--risk", str(MISSED_RISK)]
    words.append(fabric.host(2).address)
    for more in ([], ["--json"]):
        process = netns.spawn(
            [*words, *more], namespace=fabric.namespace("h1"), cgroup=None, stdout=-1,
            env=dict(os.environ),
        )  # fmt: skip
        out = process.communicate()[0].decode()
        assert process.returncode == 0
        if more:
            answer = json.loads(out)
            assert len(answer["paths"]) == SPINES
            assert answer["distance"] == 4
            assert all(path["ports"] and len(path["hops"]) == 3 for path in answer["paths"])
        else:
            assert out.count("198.18.0.1") == SPINES + 1  # once drawn, then in each row
            assert f"paths: {SPINES}, " in out
