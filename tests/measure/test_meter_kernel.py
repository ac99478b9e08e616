"""The meter on real traffic: every byte counted once, whose, where to, when."""

from __future__ import annotations

import itertools
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from hostcc.bpf.loader.errors import BpfError
from hostcc.bpf.loader.object import BpfObject
from hostcc.bpf.loader.objects import object_path
from hostcc.measure import bins
from hostcc.measure.bins import Ring
from hostcc.measure.meter import RX, TX
from tests.bpf.detaching import detach_links, links_on
from tests.measure.scene import V4, V6, Scene, Tally, programs_on, scene, until

pytestmark = pytest.mark.kernel

REPOSITORY = Path(__file__).parents[2]
SYN = {4: 60, 6: 80}
"""Headers of a SYN: IP, TCP, its options (MSS, SACK, timestamps, window scale)."""
ACK = {4: 52, 6: 72}
"""Of any other segment: timestamps only."""


@pytest.fixture
def stage(cgroup: Path) -> Iterator[Scene]:
    with scene(cgroup) as made:
        yield made


def test_constants_are_those_of_the_object() -> None:
    with BpfObject.open(object_path("meter")) as obj:
        assert obj.enums["HCC_METER_HEADER_SHIFT"] == bins.HEADER_SHIFT
        assert obj.dtype("hcc_meter_cell").itemsize == 16


@pytest.mark.parametrize(("version", "hosts"), [(4, V4), (6, V6)])
def test_tcp_to_the_byte(stage: Scene, version: int, hosts: tuple[str, str]) -> None:
    """Both ends, both directions, segmentation offload on."""
    meter = stage.meter()
    meter.attach_cgroup(1, stage.group("near"))
    meter.attach_cgroup(2, stage.group("far"))
    near, far = stage.talker(0, "near"), stage.talker(1, "far")
    tally = stage.tally(meter)
    port = far.ask("listen", address=hosts[1])
    link = near.ask("connect", address=hosts[1], port=port)
    # Little enough that a receiver that gets no CPU drops nothing: every byte goes once.
    sizes = [1, 1000, 60_000, 200_000]
    for size in sizes:
        near.ask("send", number=link, size=size)
    until(lambda: bool(far.ask("got") == sum(sizes)), "delivery", stage.meanwhile)
    far.ask("send", number=1, size=77_777)
    info = near.ask("info", number=link)
    assert info["retrans"] == 0
    tally.all()
    out, back = sum(sizes), 77_777
    assert tally.payload == {(1, hosts[1], False): (out, back), (2, hosts[0], False): (back, out)}
    headers = [SYN[version] + ACK[version] * (info[key] - 1) for key in ("segs_out", "segs_in")]
    assert info["segs_out"] > out // 1500, "counts segments, not what the stack hands down"
    assert tally.headers[1, hosts[1], False] == tuple(headers)
    # Older kernels (6.1) do not show a listener's SYN-ACK over IPv6 to programs.
    sent, got = tally.headers[2, hosts[0], False]
    assert sent in {headers[RX], headers[RX] - SYN[version]}
    assert got == headers[TX]
    assert (tally.lost_packets, tally.refused) == (0, 0)


@pytest.mark.parametrize(("hosts", "header"), [(V4, 28), (V6, 48)])
def test_udp_to_the_byte(stage: Scene, hosts: tuple[str, str], header: int) -> None:
    """Unconnected sockets; 3,000 bytes travel as fragments and count as one datagram."""
    meter = stage.meter()
    meter.attach_cgroup(3, stage.group("near"))
    near, far = stage.talker(0, "near"), stage.talker(1, "unmetered")
    tally = stage.tally(meter)
    mine, my_port = near.ask("udp", address=hosts[0])
    theirs, port = far.ask("udp", address=hosts[1])
    for size in (1, 1200, 3000):
        near.ask("datagrams", number=mine, to=[hosts[1]], port=port, size=size, times=5)
        assert far.ask("take", number=theirs, times=5) == 5 * size
    far.ask("datagrams", number=theirs, to=[hosts[0]], port=my_port, size=100, times=7)
    near.ask("take", number=mine, times=7)
    tally.all()
    assert tally.payload == {(3, hosts[1], False): (5 * 4201, 700)}
    assert tally.headers == {(3, hosts[1], False): (15 * header, 7 * header)}


def test_sockets_from_before_and_loopback(stage: Scene) -> None:
    near = stage.talker(0, "near")
    port = near.ask("listen", address=V4[0])
    link = near.ask("connect", address=V4[0], port=port)
    near.ask("send", number=link, size=5000)
    meter = stage.meter()
    meter.attach_cgroup(4, stage.group("near"))
    tally = stage.tally(meter)
    near.ask("send", number=link, size=70_000)
    tally.all()
    # It sent and received: both ends are in the job.
    assert tally.payload == {(4, V4[0], True): (70_000, 70_000)}
    window = tally.read()
    assert window.job(4).tx.sum() == 0
    near.ask("send", number=link, size=1000)
    until(lambda: bool(meter.read().job(4, local=True).tx.sum() == 1000), "local bytes")


def test_when(stage: Scene) -> None:
    """Bytes are in the bin in which they passed; bins of consecutive windows join."""
    meter = stage.meter()
    meter.attach_cgroup(5, stage.group("near"))
    near = stage.talker(0, "near")
    number, port = near.ask("udp", address=V4[0])
    moments, windows = [], []
    for _ in range(4):
        first = time.monotonic_ns()
        near.ask("datagrams", number=number, to=[V4[0]], port=port, size=1000, times=1)
        moments.append((first, time.monotonic_ns()))
        time.sleep(0.03)
        windows.append(meter.read())
    last = time.monotonic_ns()
    while windows[-1].end_ns <= last:
        windows.append(meter.read())
    for earlier, later in itertools.pairwise(windows):
        assert later.start_ns == earlier.end_ns
    seen = [
        window.start_ns + int(index) * window.bin_ns
        for window in windows
        for index in np.flatnonzero(window.job(5, local=True).tx)
    ]
    assert len(seen) == 4
    for (first, after), at in zip(moments, seen, strict=True):
        assert first - meter.ring.bin_ns < at <= after


def test_more_destinations_than_rows(stage: Scene) -> None:
    meter = stage.meter(Ring(rows=33, ring_shift=13, shard_shift=1))
    meter.attach_cgroup(6, stage.group("near"))
    near = stage.talker(0, "near")
    number, port = near.ask("udp", address="0.0.0.0")
    tally = stage.tally(meter)
    hosts = [f"127.0.1.{n}" for n in range(1, 101)]
    near.ask("datagrams", number=number, to=hosts, port=port, size=100, times=3)
    tally.all()
    # 30 of the hosts, the source of what comes back, and `other` have a row.
    assert len(tally.payload) == 32
    assert tally.payload[6, "127.0.0.1", True] == (0, 30_000)
    assert sorted(tally.payload.values())[1:-1] == [(300, 0)] * 30
    assert tally.payload[6, "other", False] == (70 * 300, 0)
    assert tally.refused == 70 * 3
    assert tally.lost_packets == 0


def test_silent_destinations_give_their_rows_up(stage: Scene) -> None:
    """Twice as many destinations as rows, a few at a time: all get one."""
    meter = stage.meter(Ring(rows=33, ring_shift=7, shard_shift=0))
    meter.attach_cgroup(7, stage.group("near"))
    near = stage.talker(0, "near")
    number, port = near.ask("udp", address="0.0.0.0")
    tally = stage.tally(meter)
    hosts = [f"127.0.2.{n}" for n in range(1, 65)]
    ring_s = meter.ring.bins * meter.ring.bin_ns / 1e9
    for first in range(0, 64, 4):
        near.ask("datagrams", number=number, to=hosts[first : first + 4], port=port, size=9,
                 times=1)  # fmt: skip
        end = time.monotonic() + 2.2 * ring_s
        while time.monotonic() < end:
            tally.read()
            time.sleep(ring_s / 8)
    tally.all()
    # A machine that was too busy to read in time says so.
    missing = 64 * 9 - sum(tx for tx, _ in tally.payload.values())
    assert missing == tally.lost[TX]
    if not tally.lost_packets:
        assert tally.payload.pop((7, "127.0.0.1", True)) == (0, 64 * 9)
        assert tally.payload == {(7, host, True): (9, 0) for host in hosts}
        assert tally.refused == 0


def test_late_reader_is_told(stage: Scene) -> None:
    meter = stage.meter(Ring(rows=5, ring_shift=9))
    meter.attach_cgroup(8, stage.group("near"))
    near = stage.talker(0, "near")
    number, port = near.ask("udp", address=V4[0])
    tally = Tally(meter)
    tally.read()
    sent = near.ask("stream", number=number, to=V4[0], port=port, size=50, seconds=1.5)
    window = tally.read()
    assert len(window) == meter.ring.bins
    assert window.lost
    assert window.lost.bins * window.bin_ns > 200_000_000

    def more() -> None:
        nonlocal sent
        near.ask("datagrams", number=number, to=[V4[0]], port=port, size=50, times=1)
        sent += 1
        tally.read()

    # If this process was kept from reading, all of the ring is of the silence since the stream.
    until(lambda: (8, V4[0], True) in tally.payload, "what is counted", more)
    tally.all()
    counted = tally.payload[8, V4[0], True]
    assert 0 < counted[TX] < sent * 50
    assert (counted[TX] + tally.lost[TX], counted[RX] + tally.lost[RX]) == (sent * 50,) * 2


def test_port_rules_and_the_tracker(stage: Scene, cgroup: Path) -> None:
    """The root's programs count what rules name, and not what a job's own programs count."""
    meter = stage.meter()
    meter.attach_cgroup(1, stage.group("job"))
    meter.attach_root(cgroup)
    server = stage.talker(1, "server")
    port = server.ask("listen", address=V4[1])
    data, data_port = server.ask("udp", address=V4[1])
    meter.set_port_rules({(port, False): 2, (data_port, True): 3})
    job, stranger = stage.talker(0, "job"), stage.talker(0, "stranger")
    tally = stage.tally(meter)
    for talker, size in ((job, 40_000), (stranger, 50_000)):
        link = talker.ask("connect", address=V4[1], port=port)
        talker.ask("send", number=link, size=size)
        mine, own_port = talker.ask("udp", address=V4[0])
        while own_port == port:  # the first rule is for either protocol
            mine, own_port = talker.ask("udp", address=V4[0])
        talker.ask("datagrams", number=mine, to=[V4[1]], port=data_port, size=10, times=2)
        server.ask("take", number=data, times=2)
    until(lambda: bool(server.ask("got") == 90_000), "delivery", stage.meanwhile)
    tally.all()
    expected = {
        (1, V4[1], False): (40_020, 0),  # the job's own cgroup
        (2, V4[0], False): (0, 90_000),  # the server's port
        (3, V4[1], False): (20, 0),  # the stranger's datagrams to that port
    }
    assert tally.payload == expected
    # A rule that goes takes effect on connections that are open.
    meter.set_port_rules({(data_port, True): 3})
    stranger.ask("send", number=0, size=1234)
    tally.all()
    assert tally.payload == expected
    assert meter.check() == []


def test_connections_come_and_go(stage: Scene) -> None:
    """Churn leaves one row, and the memory as it is."""
    meter = stage.meter()
    meter.attach_cgroup(9, stage.group("near"))
    near, far = stage.talker(0, "near"), stage.talker(1, "far")
    port = far.ask("listen", address=V4[1])
    tally = stage.tally(meter)
    for _ in range(4):
        near.ask("churn", address=V4[1], port=port, times=250, size=30)
        tally.read()
    tally.all()
    assert tally.lost_packets == 0
    assert tally.payload == {(9, V4[1], False): (30_000, 0)}
    assert len(meter._table.keys()) == 1


def test_a_job_that_leaves_gives_everything_back(stage: Scene) -> None:
    meter = stage.meter(Ring(rows=5, ring_shift=12))
    near = stage.talker(0, "near")
    number, port = near.ask("udp", address=V4[0])
    for slot in range(1, 12):
        meter.attach_cgroup(slot, stage.group("near"))
        tally = Tally(meter)
        near.ask("datagrams", number=number, to=[V4[0]], port=port, size=slot, times=1)
        near.ask("take", number=number, times=1)  # on a busy machine it arrives some time later
        meter.detach_cgroup(slot)
        assert programs_on(stage.group("near")) == 0
        near.ask("datagrams", number=number, to=[V4[0]], port=port, size=slot, times=1)
        near.ask("take", number=number, times=1)
        tally.all()
        assert tally.payload == {(slot, V4[0], True): (slot, slot)}
        until(lambda: not (meter.read() and len(meter._table.keys())), "the rows")
        meter.read()


def test_kill_9_leaves_nothing(stage: Scene, cgroup: Path) -> None:
    job = stage.group("job")
    code = (
        "import sys, time; from pathlib import Path\n"
        "from hostcc.measure.meter_kernel import KernelMeter\n"
        "meter = KernelMeter(); meter.attach_cgroup(1, Path(sys.argv[1]))\n"
        "meter.attach_root(Path(sys.argv[2])); print('up', flush=True); time.sleep(60)\n"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(job), str(cgroup)], cwd=REPOSITORY, stdout=subprocess.PIPE
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"up\n"
        assert (programs_on(job), programs_on(cgroup)) == (2, 2)
        holder.send_signal(signal.SIGKILL)
        assert holder.wait() == -signal.SIGKILL
    finally:
        holder.kill()
        holder.communicate()
    until(lambda: programs_on(job) + programs_on(cgroup) == 0, "the kernel to detach")


def test_several_cgroups_of_one_job(stage: Scene) -> None:
    """All that they send is the job's, until each is let go."""
    meter = stage.meter()
    groups = [stage.group("one"), stage.group("two")]
    for group in groups:
        meter.attach_cgroup(3, group)
    talkers = [stage.talker(0, group.name) for group in groups]
    numbers = [one.ask("udp", address=V4[0])[0] for one in talkers]
    far = stage.talker(1, "unmetered")
    theirs, port = far.ask("udp", address=V4[1])
    tally = stage.tally(meter)

    def send(size: int) -> None:
        for one, number in zip(talkers, numbers, strict=True):
            one.ask("datagrams", number=number, to=[V4[1]], port=port, size=size, times=1)
            far.ask("take", number=theirs, times=1)
        tally.all()

    send(100)
    assert tally.payload == {(3, V4[1], False): (200, 0)}
    meter.detach_cgroup(3, groups[0])
    assert [programs_on(group) for group in groups] == [0, 2]
    send(30)
    assert tally.payload == {(3, V4[1], False): (230, 0)}
    meter.detach_cgroup(3)
    send(7)
    assert tally.payload == {(3, V4[1], False): (230, 0)}


def test_check_notices_who_detached_it_and_not_a_job_that_ended(stage: Scene, cgroup: Path) -> None:
    meter = stage.meter()
    group = cgroup / "short"
    group.mkdir()
    number = group.stat().st_ino
    meter.attach_cgroup(1, group)
    assert meter.check() == []
    assert detach_links(number) == 2
    assert meter.check() == [f"job in slot 1: {group} is no longer metered"]
    meter.attach_cgroup(1, group)
    group.rmdir()
    until(lambda: not list(links_on(number)), "the kernel to detach")
    assert meter.check() == []


def test_refusals(stage: Scene, tmp_path: Path) -> None:
    meter = stage.meter()
    with pytest.raises(BpfError, match="slot: expected 1 to 1023, got 0"):
        meter.attach_cgroup(0, stage.group("near"))
    with pytest.raises(BpfError, match="cannot attach job_egress"):
        meter.attach_cgroup(1, tmp_path)
    assert meter.program_stats()[0]["name"] == "job_egress"
