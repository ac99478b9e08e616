"""Jobs on one port told apart by the shim's bins; periods, bytes and t of them."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Callable, Iterator
from ipaddress import ip_address
from pathlib import Path

import numpy as np
import pytest

from hostcc.config.schema import Config
from hostcc.config.sections.rdma import RdmaConfig
from hostcc.daemon.profiling import profiles
from hostcc.daemon.profiling.live_jobs import LiveJob
from hostcc.daemon.profiling.measurement import Measurement
from hostcc.daemon.profiling.profiles import JobFacts
from hostcc.daemon.profiling.queue_pair_meter import READ_NS, QueuePairMeter
from hostcc.daemon.profiling.rdma_meter import BypassTraffic, Rdma
from hostcc.daemon.profiling.routes import Route
from hostcc.daemon.profiling.tracks import Track
from hostcc.measure.discover.owners import Owners
from hostcc.measure.rdma_counters import Reading
from hostcc.measure.series import NS
from hostcc.verbs.process_counts import bins_prefix
from hostcc.verbs.queue_pair_bins import BIN_NS, RING
from tests.daemon.declared import check_declared
from tests.daemon.profiling.hosts import OWN, ToyHost
from tests.daemon.rdma.world import Fixed
from tests.verbs.bin_writer import Writer, write_bins

pytestmark = pytest.mark.unit
START = 7_000_000
"""A bin."""
Iterations = Callable[[int], int]
"""Number of a bin -> bytes sent in it."""


class World:
    """Two processes that live, of two jobs."""

    def __init__(self, folder: Path, pids: list[int]) -> None:
        self.counts = folder / "hostcc-qp"
        (folder / "sysfs/mlx5_0/ports/1").mkdir(parents=True)
        (folder / "sysfs/mlx5_0/ports/1/rate").write_text("100 Gb/sec (4X EDR)\n")
        self.pids, self.jobs = pids, dict(zip(pids, ("first", "second"), strict=True))
        self.meter = QueuePairMeter(lambda: Fixed(self.jobs), folder / "sysfs")
        self.meter.start()
        self.now_ns = START * BIN_NS

    def go(self, seconds: float, sends: dict[str, Iterations]) -> None:
        """Processes that send so, read as the agent does."""
        for _ in range(round(seconds * NS / READ_NS)):
            self.now_ns += READ_NS
            now = self.now_ns // BIN_NS
            for pid in self.pids:
                if job := sends.get(self.jobs[pid]):
                    kept = range(now - RING + 1, now + 1)
                    sent = {bin_: job(bin_ - START) for bin_ in kept if bin_ >= START}
                    write_bins(self.counts, pid, self.jobs[pid], [Writer(sent)])
            self.tick()

    def tick(self) -> None:
        async def turn() -> None:
            await self.meter.tick(self.counts, self.now_ns)
            if self.meter._analysing is not None:
                await self.meter._analysing

        asyncio.run(turn())


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    other = subprocess.Popen(["sleep", "infinity"])
    yield World(tmp_path, [os.getpid(), other.pid])
    other.kill()
    other.wait()


def iterations(period: int, burst: int, size: int) -> Iterations:
    """`size` bytes in each of the last `burst` bins of `period`."""
    return lambda at: size * (at % period >= period - burst)


@pytest.mark.parametrize(("first", "second"), [(48, 700), (120, 1900)])
def test_two_jobs_on_one_port(world: World, first: int, second: int) -> None:
    """Period, bytes, communication time and t within 5 %, from 50 ms to 2 s."""
    size = 2_000_000
    periods, world_of = {"first": first, "second": second}, world.meter
    sends = {job: iterations(period, period // 4, size) for job, period in periods.items()}
    world.go(12 * max(periods.values()) * BIN_NS / NS + 16.0, sends)
    assert world_of.names == ["first", "second"]
    for job, period in periods.items():
        found = world_of.traffic(job)
        assert found is not None
        track, ways = found
        got = profiles.known(LiveJob(job), track, JobFacts(ways=ways)).measured
        assert got.confidence >= 0.7
        assert got.period_s == pytest.approx(period * BIN_NS / NS, rel=0.05)
        assert got.tx_bytes == pytest.approx(period // 4 * size, rel=0.05)
        assert got.communication_s == pytest.approx(period // 4 * BIN_NS / NS, rel=0.05)
        assert got.link_time_s == pytest.approx(period // 4 * size * 8 / 100e9, rel=0.05)
        assert [link.name for link in got.links] == ["mlx5_0/1"]
        assert list(track.shares()) == [ip_address("198.18.0.1")]


def test_a_roce_port_is_the_link_of_its_network_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So jobs of both kinds are on one link."""
    devices = tmp_path / "sysfs/mlx5_0/ports/1/gid_attrs/ndevs"
    devices.mkdir(parents=True)
    (devices / "0").write_text("eth0\n")
    (tmp_path / "sysfs/ib_0/ports/1").mkdir(parents=True)
    host = ToyHost(tmp_path, Config(agent=OWN))
    measured = Measurement(host)
    measured.rdma = Rdma(host, Owners, sysfs=tmp_path / "sysfs")
    measured.rdma.start()
    ways = {
        ip_address(f"198.18.0.{number}"): Route(link, 10**11, nominal=False)
        for number, link in enumerate(("mlx5_0/1", "ib_0/1", "eth1"))
    }
    known = profiles.known(LiveJob("a"), Track("a"), JobFacts(ways=ways))
    monkeypatch.setattr(measured.traffic, "known", lambda _: known)
    assert set(measured.links("a")) == {"eth0", "ib_0/1", "eth1"}
    assert not measured.by_rdma("a")
    track = BypassTraffic(known.track, (), {})
    monkeypatch.setattr(measured.rdma, "track", lambda _: track)
    assert measured.by_rdma("a")
    monkeypatch.setattr(measured.rdma, "track", lambda _: track._replace(track=Track("a")))
    assert not measured.by_rdma("a"), "its connections send more"


def test_no_byte_is_read_twice_or_left_out(world: World) -> None:
    world.go(4.0, {"first": lambda at: at % 7})
    found = world.meter.traffic("first")
    assert found is not None
    track = found[0]
    assert track.watch is not None
    until = track.watch.levels[0].end_ns if not track.waiting_s else track._waiting[-1].end_ns
    assert track.total[0] == sum(at % 7 for at in range(until // BIN_NS - START))


@pytest.mark.parametrize("what", ["owner", "job", "version"])
def test_files_that_do_not_count(world: World, what: str) -> None:
    """Of a process that is another job's, or nobody's; of a shim of another version."""
    pid = world.pids[0]
    path = write_bins(
        world.counts, pid, "second" if what == "job" else "first", [Writer({START: 9})]
    )
    if what == "owner":
        os.chown(path, 65534, 65534)
    if what == "version":
        with path.open("r+b") as file:
            file.seek(8)
            file.write(b"\x07")
    world.tick()
    assert world.meter.names == []


def test_a_job_whose_shim_has_no_room_is_not_counted(world: World) -> None:
    """Its bytes would be too few."""
    pid = world.pids[0]
    world.now_ns += READ_NS
    write_bins(world.counts, pid, "first", [Writer({START: 9})], left_out=1)
    world.tick()
    assert world.meter.traffic("first") is None


def test_what_has_ended_is_forgotten(world: World) -> None:
    world.go(1.0, {"first": lambda _: 5})
    assert world.meter.names == ["first"]
    prefix = bins_prefix(world.counts)
    prefix.with_name(f"{prefix.name}.{world.pids[0]}").unlink()
    world.tick()
    assert world.meter.names == ["first"]
    world.now_ns += 11 * NS
    world.tick()
    assert world.meter.names == []


def test_a_reader_that_was_away_begins_anew(world: World) -> None:
    """What is older than the rings is lost, and the rest is in its place."""
    world.go(1.0, {"first": lambda _: 5})
    world.now_ns += 10 * NS
    world.go(1.0, {"first": lambda _: 5})
    found = world.meter.traffic("first")
    assert found is not None
    whole = np.concatenate([one.whole().tx for one in found[0]._waiting])
    assert set(whole.tolist()) <= {0, 5}


def test_the_part_prefers_the_shims_bins(world: World, tmp_path: Path) -> None:
    rdma = RdmaConfig(counts=str(world.counts))
    host = ToyHost(tmp_path, config=Config(agent=OWN, rdma=rdma))
    counters = tmp_path / "sysfs/mlx5_0/ports/1/counters"
    counters.mkdir()
    for name in ("port_xmit_data", "port_rcv_data"):
        (counters / name).write_text("0\n")

    class Tool:
        def read(self) -> Reading:
            return Reading((), ())

    part = Rdma(
        host, lambda: Fixed(world.jobs), Tool, tmp_path / "sysfs",  # type: ignore[arg-type]
        lambda: world.now_ns,
    )  # fmt: skip
    part.start()
    world.now_ns += READ_NS
    write_bins(world.counts, world.pids[0], "first", [Writer({START + 300: 9})])
    asyncio.run(part.tick())
    assert part.view().by_shim == ["first"]
    check_declared(part)
    found = part.track("first")
    assert found is not None
    assert found.track.total == (9, 0)
    assert part.track("second") is None
