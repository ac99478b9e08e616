"""RDMA bytes given to jobs, on files in a folder; bindings are journalled and undone."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import numpy as np
import pytest

from hostcc.daemon.changes import kinds, mechanisms
from hostcc.daemon.changes.journal import Journal
from hostcc.daemon.profiling.live_jobs import LiveJob
from hostcc.daemon.profiling.profile_cache import ProfileCache
from hostcc.daemon.profiling.rdma_meter import BIN_NS, OWNER_SCAN_S, Rdma
from hostcc.measure.discover.owners import Owners
from hostcc.measure.rdma_counters import CounterDelta, Process, Reading
from tests.daemon.declared import check_declared
from tests.daemon.profiling.hosts import ToyHost

pytestmark = pytest.mark.unit

NONE = CounterDelta(None, None, None, None)
HERE = os.getpid()


class Tool:
    """What `rdma statistic` would say."""

    def __init__(self) -> None:
        self.why = ""
        self.bound: list[str] = []
        self.pids: tuple[int, ...] = (HERE,)
        self.answers = True

    def read(self) -> Reading:
        if not self.answers:
            return Reading((), None)
        return Reading((), tuple(Process("mlx5_0", 1, pid, (7,), NONE, {}) for pid in self.pids))

    def bind_by_process(self, device: str, port: int) -> str:
        if not self.why:
            self.bound.append(f"{device}/{port}")
        return self.why

    def unbind(self, device: str, port: int) -> str:
        self.bound.remove(f"{device}/{port}")
        return ""


class World:
    def __init__(self, folder: Path) -> None:
        self.host = ToyHost(folder)
        self.now_ns = 10 * BIN_NS
        self.tool = Tool()
        self.counters = folder / "sysfs/mlx5_0/ports/1/counters"
        self.counters.mkdir(parents=True)
        (self.counters.parent / "rate").write_text("100 Gb/sec (4X EDR)\n")
        self.count(0, 0)
        self.jobs: dict[int, str] = {HERE: "train"}
        self.part = Rdma(
            self.host, lambda: _Fixed(self.jobs), lambda: self.tool, folder / "sysfs",
            lambda: self.now_ns,
        )  # fmt: skip

    def count(self, sent: int, taken: int) -> None:
        """In bytes; the file counts words of four."""
        (self.counters / "port_xmit_data").write_text(f"{sent // 4}\n")
        (self.counters / "port_rcv_data").write_text(f"{taken // 4}\n")

    def tick(self, bins: float = 1.0) -> None:
        async def turn() -> None:
            await self.part.tick()
            if self.part._analysing is not None:
                await self.part._analysing

        asyncio.run(turn())
        self.now_ns += int(bins * BIN_NS)


class _Fixed(Owners):
    def __init__(self, jobs: dict[int, str]) -> None:
        object.__setattr__(self, "jobs", jobs)

    def of(self, pid: int) -> str | None:
        jobs: dict[int, str] = self.__dict__["jobs"]
        return jobs.get(pid)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_bytes_of_a_port_are_its_only_jobs(world: World) -> None:
    world.host.act()
    assert world.part.disabled_reason() == ""
    world.part.start()
    sent = 0
    for number in range(400):  # 12 bins an iteration, bytes in the last 4 of them
        sent += 4_000_000 * (number % 12 >= 8)
        world.count(sent, sent // 2)
        world.tick()
    found = world.part.track("train")
    assert found is not None
    track, links, _ = found
    assert track.total[0] == pytest.approx(sent, rel=0.02)
    assert [(link.name, link.bits_per_s) for link in links] == [("mlx5_0/1", 100e9)]
    assert track.pattern()[1].period_s == pytest.approx(12 * BIN_NS / 1e9, rel=0.05)
    # What is told of the job is kept while its links are the same.
    told, made = ProfileCache(), list[int]()

    def make() -> None:
        made.append(1)

    for now_s in range(10):
        told.profile(LiveJob("train"), track, world.part.track("train"), float(now_s), make)
    assert len(made) == 1


def test_a_binding_is_journalled_and_undone(world: World) -> None:
    world.host.act()
    world.part.start()
    world.tick()
    assert world.tool.bound == ["mlx5_0/1"]
    assert "rdma-counters:mlx5_0/1" in world.host.journal.active
    asyncio.run(world.part.stop())
    assert world.tool.bound == []
    assert "rdma-counters:mlx5_0/1" not in world.host.journal.active


def test_what_a_driver_refuses_is_told(world: World) -> None:
    world.host.act()
    world.tool.why = "Operation not supported"
    world.part.start()
    world.tick()
    assert world.part.view().unknown == {"mlx5_0/1": "Operation not supported"}
    check_declared(world.part)
    assert "rdma-counters:mlx5_0/1" not in world.host.journal.active


def test_an_observer_binds_nothing(world: World) -> None:
    world.part.start()
    world.tick()
    assert (world.tool.bound, list(world.host.journal.active)) == ([], [])


def test_several_jobs_on_a_port_are_not_told_apart(world: World) -> None:
    world.tool.pids = (HERE, 1)
    world.jobs[1] = "other"
    world.part.start()
    for sent in range(0, 10**7, 10**6):
        world.count(sent, sent)
        world.tick()
    assert world.part.track("train") is None
    assert "several jobs" in world.part.view().unknown["mlx5_0/1"]


@pytest.mark.parametrize(("failures", "lost"), [(1, 0), (2, 1)])
def test_a_tool_that_fails_once_costs_no_bytes(world: World, failures: int, lost: int) -> None:
    """A job would seem silent for ten seconds; whoever fails again says nothing any more."""
    world.host.act()
    world.part.start()
    scan, sent = int(OWNER_SCAN_S * 1e9) // BIN_NS + 1, 0
    for number in range(4 * scan):
        world.tool.answers = not scan <= number < (1 + failures) * scan
        sent += 4000
        world.count(sent, 0)
        world.tick()
    found = world.part.track("train")
    assert found is not None
    missing = sent - found.track.total[0]
    assert missing == pytest.approx(lost * scan * 4000, abs=3 * 4000)


def test_a_process_of_no_job_is_not_followed(world: World) -> None:
    world.jobs.clear()
    world.part.start()
    for sent in range(0, 10**7, 10**6):
        world.count(sent, sent)
        world.tick()
    for kept in (world.part._tracks, world.part._bins, world.part._ports):
        assert len(kept) == 0


def test_of_jobs_that_ended_nothing_is_kept(world: World) -> None:
    world.part.start()
    sent = 0
    for number in range(30):  # a job after the other, each with two looks at whose pairs there are
        world.jobs[HERE] = f"train-{number}"
        for _ in range(2):
            world.part._whose_due_ns = 0
            sent += 10**6
            world.count(sent, sent)
            world.tick(100)
    assert world.part.track("train-29") is not None
    assert world.part.track("train-0") is None
    kept = (world.part._tracks, world.part._bins, world.part._ports)
    assert all(len(one) <= 4 for one in kept)


def test_late_readings_leave_no_gap(world: World) -> None:
    world.part.start()
    for sent in range(0, 8 * 10**6, 10**6):
        world.count(sent, sent)
        world.tick(2.5)
    found = world.part.track("train")
    assert found is not None
    assert np.sum(found[0].total) > 0


def test_no_device(tmp_path: Path) -> None:
    host = ToyHost(tmp_path)
    assert Rdma(host, Owners, Tool, tmp_path / "none").disabled_reason() == "no RDMA device"


def test_bindings_of_an_agent_that_was_killed_are_undone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    undone: list[tuple[str, int]] = []
    refusals = {"mlx5_1": "no such device"}

    class Tool:
        def unbind(self, device: str, port: int) -> str:
            undone.append((device, port))
            return refusals.get(device, "")

    journal = Journal(tmp_path)
    journal.open("1")
    for device in ("mlx5_0", "mlx5_1"):
        journal.begin(kinds.rdma_counters(device, 1))
    monkeypatch.setattr(mechanisms, "HostRdma", Tool)
    problems = mechanisms.undo_all(journal, (kinds.RDMA,), "rolled back")
    assert undone == [("mlx5_0", 1), ("mlx5_1", 1)]
    # What could not be undone stays in the journal for the next attempt.
    assert list(journal.active) == [kinds.rdma_counters("mlx5_1", 1).id]
    assert len(problems) == 1
    assert "counters stay bound by process: no such device" in problems[0]
    journal.close("test")
