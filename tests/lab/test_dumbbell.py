"""The fabric on the real kernel: reachable, shaped, delayed, marked, and gone afterwards."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from hostcc.lab import netns, state
from hostcc.lab.dumbbell import Dumbbell
from hostcc.lab.ecn import marked_packets
from hostcc.lab.scenario import FabricSpec, JobSpec, Scenario
from hostcc.lab.scenario_hosts import LEFT, hosts_of, packet_bytes
from hostcc.lab.topology import Link
from hostcc.system.cgroups import resolve_root
from tests.patience import until

pytestmark = pytest.mark.kernel

SCENARIO = Scenario(job=(JobSpec(name="a", comm_ms=1), JobSpec(name="b", comm_ms=1)))
HOSTS = hosts_of(SCENARIO)


def leftovers(lab: Dumbbell) -> list[str]:
    names = [name for name in lab.state.namespaces if netns.exists(name)]
    groups = [str(path) for path in resolve_root("auto").glob(f"hostcc-lab-{lab.state.id}*")]
    return [*names, *groups, *map(str, state.STATE_DIRECTORY.glob(f"{lab.state.id}*"))]


def serve(fabric: Dumbbell, host: str, address: str, body: Callable[[socket.socket], None]) -> int:
    """Accept one connection on a host in the background; returns the port."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = netns.inside(
        fabric.namespace(host), lambda: socket.create_server((address, 0), family=family)
    )

    def accept() -> None:
        with listener, listener.accept()[0] as link:
            body(link)

    threading.Thread(target=accept, daemon=True).start()
    port: int = listener.getsockname()[1]
    return port


def echo(link: socket.socket) -> None:
    while data := link.recv(1 << 16):
        link.sendall(data)


def swallow(link: socket.socket) -> None:
    while link.recv(1 << 16):
        pass


def dial(fabric: Dumbbell, host: str, address: str, port: int) -> socket.socket:
    return netns.inside(
        fabric.namespace(host), lambda: socket.create_connection((address, port), 60)
    )


def rtt_us(link: socket.socket) -> int:
    """Smallest round-trip time that the kernel has seen on a connection (tcpi_min_rtt)."""
    for _ in range(20):
        link.sendall(b"x")
        link.recv(1)
    info = link.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    return int.from_bytes(info[148:152], "little")


def test_hosts_reach_each_other_and_nothing_is_left() -> None:
    with Dumbbell(FabricSpec(), HOSTS) as fabric:
        assert set(fabric.state.namespaces) <= {path.name for path in Path("/run/netns").iterdir()}
        for source, target in ((0, 1), (0, 3), (1, 2)):
            for address in (HOSTS[target].address, HOSTS[target].address6):
                port = serve(fabric, HOSTS[target].name, address, echo)
                with dial(fabric, HOSTS[source].name, address, port) as link:
                    link.sendall(b"hello")
                    assert link.recv(5) == b"hello"
        assert fabric.counters()["right"].packets > 0
        assert fabric.counters()["left"].packets > 0
    assert leftovers(fabric) == []
    fabric.close()


def test_a_failure_while_building_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    fabric = Dumbbell(FabricSpec(), HOSTS)

    def fail(link: Link) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(fabric, "_wire_link", fail)
    with pytest.raises(KeyboardInterrupt):
        fabric.__enter__()
    assert leftovers(fabric) == []


def test_the_default_control_of_a_namespace_can_be_a_restricted_one() -> None:
    allowed = Path("/proc/sys/net/ipv4/tcp_allowed_congestion_control")
    before = allowed.read_text()
    with Dumbbell(FabricSpec(), HOSTS) as fabric:
        for control in ("cubic", "reno"):
            fabric.set_congestion_control(control)
            assert allowed.read_text() == before
            port = serve(fabric, "h2", HOSTS[1].address, echo)
            with dial(fabric, "h1", HOSTS[1].address, port) as link:
                name = link.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)
                assert name.rstrip(b"\0").decode() == control


def test_a_full_queue_drops_single_packets() -> None:
    spec = FabricSpec(rate_mbit=50, buffer_packets=10)
    with Dumbbell(spec, HOSTS) as fabric:
        port = serve(fabric, "h2", HOSTS[1].address, swallow)
        with dial(fabric, "h1", HOSTS[1].address, port) as link:
            link.sendall(bytes(2_000_000))
            link.shutdown(socket.SHUT_WR)
            link.recv(1)
        counters = fabric.counters()["right"]
    assert counters.packets >= 2_000_000 // 1448
    assert counters.drops > 0
    # Single packets: with segmentation offload a buffer would hold several.
    assert counters.bytes / counters.packets <= packet_bytes(spec)


@pytest.mark.parametrize("base_rtt_us", [2000, 10_000])
def test_base_round_trip_time(base_rtt_us: int) -> None:
    with Dumbbell(FabricSpec(base_rtt_us=base_rtt_us), HOSTS) as fabric:
        for address in (HOSTS[1].address, HOSTS[1].address6):
            port = serve(fabric, "h2", address, echo)
            with dial(fabric, "h1", address, port) as link:
                # One exchange without a delay of the machine is enough; none is faster.
                until(lambda: rtt_us(link) <= 2 * base_rtt_us, f"{base_rtt_us} us")
                assert base_rtt_us - 60 <= rtt_us(link)
    assert leftovers(fabric) == []


@pytest.mark.parametrize("threshold", [0, 3])
def test_packets_are_marked_above_the_threshold_only_when_asked(threshold: int) -> None:
    spec = FabricSpec(rate_mbit=50, ecn_threshold_packets=threshold)
    with Dumbbell(spec, HOSTS) as fabric:
        fabric.set_congestion_control("reno")
        for host in ("h1", "h2"):
            netns.set_sysctls(fabric.namespace(host), {"net/ipv4/tcp_ecn": "1"})
        port = serve(fabric, "h2", HOSTS[1].address, swallow)
        with dial(fabric, "h1", HOSTS[1].address, port) as link:
            link.sendall(bytes(1_000_000))
            link.shutdown(socket.SHUT_WR)
            link.recv(1)
        marked = marked_packets(fabric.namespace("h2"))
    assert (marked > 0) == (threshold > 0)


def test_switches_have_no_way_out() -> None:
    with Dumbbell(FabricSpec(), HOSTS) as fabric:
        links = netns.inside(
            fabric.namespace(LEFT), lambda: [name for _, name in socket.if_nameindex()]
        )
    assert sorted(links) == ["h1", "h3", "lo", "mid"]
