"""Jobs are told what is planned: journalled, verified, taken back."""

from __future__ import annotations

import asyncio
import ctypes
import os
import random
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hostcc.config.sections.job import JobRequest
from hostcc.config.sections.users import UsersConfig
from hostcc.daemon.changes.journal import Journal
from hostcc.daemon.planning.agreement_status import PlanResult
from hostcc.daemon.rdma import queue_pair_records
from hostcc.daemon.rdma.path_tables import DOUBT_S
from hostcc.daemon.rdma.plan_publisher import PlanPublisher
from hostcc.daemon.rdma.queue_pair_flows import QueuePairRoute as RdmaWay
from hostcc.model import ClusterView, FlowPlan, JobPlan, PathTable, Plan
from hostcc.model import Path as Way
from hostcc.schedule.plan import Options, solve_for_agents
from hostcc.verbs import plan_region as shared
from tests.daemon.declared import check_declared
from tests.daemon.gossip.sources import no_profiles
from tests.daemon.planning.made import ToyPlans
from tests.daemon.rdma.world import HERE, RATE, THERE, Process, World

pytestmark = [pytest.mark.unit, pytest.mark.slow]
LINKS = {"left": ">198.19.0.2", "right": ">198.19.1.2"}
PORTS = {"left": (50000, 50002), "right": (50001, 50003)}


class Network:
    """Which ports lead where; `ways` may change."""

    def __init__(self) -> None:
        self.ways = ["left"]
        self.asked = 0
        self.dead: set[str] = set()
        """Paths that a look at one port of each misses."""
        self.ready = threading.Event()
        """Until it is set searches for all paths do not end."""
        self.ready.set()

    def __call__(self, src: str, dst: str) -> PathTable:
        self.asked += 1
        assert self.ready.wait(60)
        ports = {one: PORTS[one] if len(self.ways) == 2 else (50000, 50001, 50002, 50003)
                 for one in self.ways}  # fmt: skip
        paths = [Way(one, (f"{src}>", LINKS[one], f">{dst}"), ports[one]) for one in self.ways]
        return PathTable(src, dst, tuple(paths))

    def check(self, table: PathTable, *, quick: bool = False) -> PathTable:
        paths = tuple(path for path in table.paths if path.id not in self.dead)
        return replace(table, paths=paths) if self.dead else table


class Links:
    """Changes of links and routes, as told."""

    def __init__(self) -> None:
        self.events: tuple[str, ...] = ()
        self.closed = 0

    def read(self) -> tuple[str, ...]:
        events, self.events = self.events, ()
        return events

    def close(self) -> None:
        self.closed += 1


class Told:
    """A region as a job reads it."""

    def __init__(self, path: Path) -> None:
        data = path.read_bytes()
        self.header = shared.Header.from_buffer_copy(data)
        size, first = len(data), shared.Header.generation.offset
        assert size > first
        entry = shared.JobEntry
        step, start = ctypes.sizeof(entry), ctypes.sizeof(shared.Header)
        entries = [entry.from_buffer_copy(data, at) for at in range(start, size, step)]
        self.jobs = {one.name.decode(): one for one in entries if one.name}

    def ports(self, job: str) -> tuple[int, ...]:
        entry = self.jobs[job]
        return tuple(entry.path[0].ports[: entry.path[0].count]) if entry.paths else ()


class Stage:
    def __init__(self, folder: Path, **rdma: Any) -> None:
        self.world = World(folder, **rdma)
        self.network = Network()
        self.links: Any = Links()
        self.plans = ToyPlans(member="me")
        self.profiles = no_profiles()
        self.sending: dict[str, tuple[Process, int]] = {}
        """Job -> its process, and bytes per second."""
        self.sent: dict[str, int] = {}
        self.message_s = 0.001
        """That each of ten messages a second takes."""
        world = self.world
        self.part = PlanPublisher(
            world.host, world.tracker, self.profiles, self.plans,
            lambda _: self.network, lambda: world.now, lambda: self.links,
            lambda _: self.network.check,
        )  # fmt: skip

    def run(self, seconds: int) -> None:
        """Ticks, with processes that send so many bytes a second."""

        asyncio.run(self.seconds(seconds))

    async def seconds(self, seconds: int) -> None:
        """The same."""
        for _ in range(seconds):
            self.world.now += 1.0
            for job, (process, rate) in self.sending.items():
                told = self.told().jobs.get(job)
                port = told.path[0].ports[0] if told is not None and told.paths else 0
                self.sent[job] = self.sent.get(job, 0) + rate
                process.completed += 10
                process.busy_s += 10 * self.message_s
                process.count(self.sent[job], port)
            await self.part.tick()
            await asyncio.sleep(0.02)  # the look in its thread
            await self.part.tick()

    async def until(self, good: Callable[[], bool]) -> None:
        """Seconds go by until that is so."""
        for _ in range(1000):
            if good():
                return
            await self.seconds(1)
        raise AssertionError("not after 1000 seconds")

    def told(self) -> Told:
        return Told(Path(self.world.host.config.rdma.plan))


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def two_jobs(stage: Stage) -> None:
    world = stage.world
    for job, pid in (("a", os.getpid()), ("b", os.getppid())):
        world.job(job)
        stage.sending[job] = (world.process(job, pid), 15 * 10**9)


def test_when_it_runs(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    assert stage.part.disabled_reason() == "the agent only observes"
    stage.world.job("a")
    assert stage.part.disabled_reason() == ""
    for name in ("other", "third"):
        (tmp_path / name).mkdir()
    stage = Stage(tmp_path / "other", enabled=False)
    stage.world.job("a")
    assert stage.part.disabled_reason() == "rdma.enabled is false"
    stage = Stage(tmp_path / "third")
    stage.world.job("a")
    stage.world.tracker.sysfs = tmp_path / "nowhere"
    assert stage.part.disabled_reason() == "no RDMA device"


def test_a_job_is_told_at_once(stage: Stage) -> None:
    stage.world.job("a")
    stage.part.start()
    told = stage.told()
    assert set(told.jobs) == {"a"}
    assert told.jobs["a"].flags == 0  # nothing but: count
    assert 0 <= time.monotonic_ns() - told.header.beat < 60e9
    assert told.header.stale_us == 1_500_000
    active = stage.world.host.journal.active
    path = stage.world.host.config.rdma.plan
    assert {f"rdma-plan:{path}", "rdma-job:a"} <= set(active)
    stage.world.job("b")
    assert stage.part.joined()["HOSTCC_RDMA_PLAN"] == path
    assert set(stage.told().jobs) == {"a", "b"}
    region = stage.part.region
    assert region is not None
    assert region.set_gate("a", shared.BurstGate(5, 7, 3))  # whoever has gates writes there
    assert stage.part.verify() == []
    stage.part.stop()
    assert stage.part.region is None
    assert not Path(path).exists()
    assert not [key for key in active if key.startswith("rdma-")]
    assert stage.part.joined() == {}


def test_users_jobs_are_told_unless_the_administrator_says_otherwise(stage: Stage) -> None:
    stage.world.job("a")
    table = stage.world.host.engine.table
    table.register("uid1000:b", JobRequest(), os.getpid(), owner=1000)
    stage.part.start()
    assert set(stage.told().jobs) == {"a", "uid1000:b"}
    table.configure(msgspec.structs.replace(table.config, users=UsersConfig(rdma=False)))
    stage.part.joined()
    assert set(stage.told().jobs) == {"a"}
    assert "rdma-job:uid1000:b" not in stage.world.host.journal.active
    stage.part.stop()


def test_one_of_two_jobs_moves_when_there_is_another_path(stage: Stage) -> None:
    two_jobs(stage)
    stage.part.start()
    stage.run(4)
    assert {path.id for table in stage.part._ways.tables.values() for path in table.paths} == {
        "left"
    }
    before = {job: stage.told().ports(job) for job in ("a", "b")}
    assert before["a"] == before["b"] == (50000, 50001, 50002, 50003)
    stage.network.ways = ["left", "right"]
    stage.run(70)
    after = {stage.told().ports(job) for job in ("a", "b")}
    assert after == {PORTS["left"], PORTS["right"]}
    generation = stage.told().header.generation
    stage.run(70)  # asked again, and nothing is new
    assert stage.told().header.generation == generation
    assert stage.network.asked == 3
    (row, _) = stage.part.view().rdma
    check_declared(stage.part)
    assert (row.job, row.processes, row.queue_pairs) == ("a", 1, 1)
    assert row.largest[0].destination == THERE
    assert row.bytes > 0
    assert row.left_alone == 0


def test_the_clusters_plan_is_followed(stage: Stage) -> None:
    two_jobs(stage)
    stage.network.ways = ["left", "right"]
    flow = f"me/{queue_pair_records.flow_id(RdmaWay('a', 'mlx5_0', HERE, THERE))}"
    stage.plans.result = made(flow, "right", 2)
    stage.part.start()
    stage.run(4)
    assert stage.told().ports("a") == PORTS["right"]
    assert stage.told().jobs["a"].level == 2
    stage.plans.result = replace(
        made(flow, "left", 3), stays=frozenset({flow})
    )  # of a view before that
    stage.run(1)
    assert stage.told().ports("a") == PORTS["right"]
    assert stage.told().jobs["a"].level == 3
    stage.plans.result = made(flow, "left", 3)
    stage.run(1)
    assert stage.told().ports("a") == PORTS["left"]


def made(flow: str, path: str, level: int) -> PlanResult:
    """One job's plan; what else it was made from is of no interest here."""
    plan = Plan("d", (JobPlan("a", 0, level, 1.0),), (FlowPlan(flow, path),))
    return PlanResult(plan, solve_for_agents(ClusterView(), Options()))


def test_the_others_are_told(stage: Stage) -> None:
    two_jobs(stage)
    stage.network.ways = ["left", "right"]
    stage.part.start()
    assert not stage.part.shared.flows
    stage.run(6)
    flows = {one.job: one for one in stage.part.shared.flows}
    assert set(flows) == {"a", "b"}
    assert {one.path for one in flows.values()} == {"left", "right"}
    assert flows["a"].dst == THERE
    assert [one.job for one in stage.profiles.published()] == ["a", "b"]
    assert stage.part.shared.capacities[f"{HERE}>"] == RATE
    stage.part.stop()
    assert not stage.part.shared.flows
    assert not stage.profiles.published()


def test_classes_are_the_operators(tmp_path: Path) -> None:
    stage = Stage(tmp_path, dscp=(26,) * 8)
    two_jobs(stage)
    stage.part.start()
    assert stage.told().jobs["a"].traffic_class == 26 << 2


def test_pacing_only_of_those_that_share(tmp_path: Path) -> None:
    stage = Stage(tmp_path, pace=True)
    two_jobs(stage)
    for process, _ in stage.sending.values():
        process.count(0, iterations=0)
    stage.part.start()
    stage.sending = {}
    for step in range(1, 4):
        for job, pid in (("a", os.getpid()), ("b", os.getppid())):
            process = stage.world.process(job, pid)
            process.count(step * 10**8, iterations=step)
        stage.run(1)
    told = stage.told().jobs
    assert told["a"].rate == told["b"].rate == 12_500_000_000  # half of 200 Gbit/s
    assert told["a"].iteration_bytes == 10**8
    assert (told["a"].f_milli[0], told["a"].f_milli[32]) == (250, 2000)


def test_a_job_that_counts_nonsense_stops_nobodys_pacing(tmp_path: Path) -> None:
    """It says of itself that its iterations have less than a byte each."""
    stage = Stage(tmp_path, pace=True)
    two_jobs(stage)
    stage.part.start()
    stage.sending = {}
    for step in range(1, 4):
        stage.world.process("a", os.getpid()).count(step, iterations=step * 10**6)
        stage.world.process("b", os.getppid()).count(step * 10**8, iterations=step)
        stage.run(1)
    told = stage.told().jobs
    assert (told["a"].iteration_bytes, told["b"].iteration_bytes) == (1, 10**8)


def test_a_reload_reaches_the_jobs_that_run(stage: Stage) -> None:
    """Heartbeats may come as rarely as is configured now; so do long messages."""
    stage.world.job("a")
    stage.part.start()
    stage.run(1)
    before = stage.told().header
    assert (before.stale_us, before.long_bytes) == (1_500_000, 0)
    config = stage.world.host.config
    stage.world.host.config = msgspec.structs.replace(
        config,
        agent=msgspec.structs.replace(config.agent, heartbeat_s=2.0, heartbeat_stale_s=5.0),
        rdma=msgspec.structs.replace(config.rdma, long_message_bytes=65536),
    )
    stage.run(1)
    after = stage.told().header
    assert (after.stale_us, after.long_bytes) == (5_000_000, 65536)
    assert after.generation > before.generation  # so that shims look at their queue pairs again
    stage.run(1)
    assert stage.told().header.generation == after.generation


def test_without_steering_nobody_is_asked(tmp_path: Path) -> None:
    stage = Stage(tmp_path, steer=False)
    two_jobs(stage)
    stage.part.start()
    stage.run(4)
    assert stage.network.asked == 0
    assert stage.told().ports("a") == ()


def test_what_others_do_to_it_shows(stage: Stage) -> None:
    stage.world.job("a")
    stage.part.start()
    assert stage.part.verify() == []
    region = stage.part._region
    assert region is not None
    region._jobs[0].traffic_class = 255
    (found,) = stage.part.verify()
    assert (found.id, found.found) == ("rdma-job:a", "something else")
    region._jobs[0].traffic_class = 0
    Path(stage.world.host.config.rdma.plan).unlink()
    (found,) = stage.part.verify()
    assert found.found == "No such file or directory"
    stage.part.stop()


def test_what_a_killed_agent_left_goes(stage: Stage) -> None:
    stage.world.job("a")
    stage.part.start()
    journal = stage.world.host.journal
    old = stage.world.folder / "elsewhere"
    Path(stage.world.host.config.rdma.plan).rename(old)
    change = journal.active[f"rdma-plan:{stage.world.host.config.rdma.plan}"]
    moved = type(change)(**{**change.__dict__, "target": str(old), "id": f"rdma-plan:{old}"})
    journal.begin(moved)
    again = Journal(journal.path.parent)  # as the next agent reads it
    again.open()
    stage.world.host.journal = again
    other = PlanPublisher(
        stage.world.host, stage.world.tracker, no_profiles(), ToyPlans(), lambda _: stage.network
    )
    other.start()
    assert not old.exists()
    assert f"rdma-plan:{old}" not in again.active
    assert set(stage.told().jobs) == {"a"}
    other.stop()


def test_a_change_of_a_link_has_paths_asked_for_at_once(stage: Stage) -> None:
    """And what was moved goes where the new answer says, a minute before it is asked as usual."""
    two_jobs(stage)
    stage.part.start()
    stage.run(4)
    assert stage.network.asked == 1
    stage.network.ways = ["left", "right"]
    stage.run(3)
    assert stage.network.asked == 1  # nothing says that there are others now
    stage.links.events = ("a route came",)
    stage.run(3)
    assert stage.network.asked == 2
    assert {stage.told().ports(job) for job in ("a", "b")} == {PORTS["left"], PORTS["right"]}
    stage.network.ways = ["right"]
    stage.links.events = ("a link went",)
    stage.run(round(DOUBT_S) + 3)
    assert stage.network.asked == 3
    assert {stage.told().ports(job)[0] for job in ("a", "b")} <= {50000, 50001, 50002, 50003}
    stage.part.stop()
    assert stage.links.closed == 1


@pytest.mark.parametrize("what", ["completions", "retransmissions"])
def test_doubts_have_paths_asked_for_at_once(stage: Stage, what: str) -> None:
    two_jobs(stage)
    counter = stage.world.sysfs / "mlx5_0/ports/1/hw_counters/out_of_sequence"
    counter.parent.mkdir()
    counter.write_text("7\n")
    stage.part.start()
    stage.run(6)
    assert stage.network.asked == 1  # what was counted before is no news
    if what == "completions":
        stage.sending["a"][0].errors = 1
    else:
        counter.write_text("8\n")
    stage.run(3)
    assert stage.network.asked == 2
    stage.run(20)  # nothing more happens
    assert stage.network.asked == 2


def test_files_of_the_dead_are_swept(stage: Stage) -> None:
    two_jobs(stage)
    dead = stage.world.folder / f"qp.{2**22 + random.randrange(1000)}"
    dead.write_bytes(b"")
    stage.part.start()
    stage.run(1)
    assert not dead.exists()


def test_queue_pairs_without_room_are_told_of(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    stage.world.job("a")
    process = stage.world.process("a")
    process._counts.left_alone = 3
    process.count(1000)
    stage.part.start()
    stage.run(3)
    (row,) = stage.part.view().rdma
    assert (row.queue_pairs, row.left_alone) == (1, 3)
    said = [one.getMessage() for one in caplog.records]
    assert said.count("no room for all of its queue pairs: some are left alone") == 1
