"""What is surveyed: jobs that ran before, and what is kept of paths, without a network."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from hostcc.answers.status import Routing
from hostcc.config.schema import Config
from hostcc.config.sections.gossip import GossipConfig
from hostcc.config.sections.job import JobConfig
from hostcc.config.sections.paths import PathsConfig
from hostcc.coord.core.payloads import PATHS, Paths
from hostcc.daemon.gossip.profile_store import ExpectedJob
from hostcc.daemon.steering import elephants
from hostcc.daemon.steering import survey_task as module
from hostcc.daemon.steering.nics import Nic
from hostcc.daemon.steering.path_discovery import TargetPaths
from hostcc.daemon.steering.steering_state import SteeringState
from hostcc.daemon.steering.survey_task import FORGET_TARGET_S, KEEP_S, SurveyTask
from hostcc.model import JobProfile, PathTable
from hostcc.model import Path as Way
from hostcc.paths.packets import Target
from hostcc.paths.steering_messages import FlowKey
from tests.daemon.profiling.hosts import OWN, ToyHost
from tests.fakes import FakeSocket

pytestmark = [pytest.mark.unit, pytest.mark.asyncio]

SRC, DST = "198.18.0.1", "198.18.0.2"
WAYS = (Way("one", ("a", "b"), (61000,)), Way("two", ("a", "c"), (61001,)))


EXPECTED = {"train": ExpectedJob(frozenset({DST}), 1e6)}


class Searches:
    """An Explorer that finds two paths; that of a flow first where it is asked to."""

    def __init__(self) -> None:
        self.looks: list[tuple[int, bool]] = []
        """Destination port, and whether flows come first."""
        self.forgotten: list[int] = []

    def due(self, known: TargetPaths, now: float) -> bool:
        return not known.is_whole

    def look(self, known: TargetPaths) -> None:
        first = known.asked.own_first and known.table is None
        self.looks.append((known.target.dst_port, first))
        ways = WAYS[:1] if first else WAYS
        known.take(PathTable(SRC, DST, ways), 1.0, 0.0, "", is_whole=not first)

    def hint(self, target: Target, reason: str) -> None:
        pass

    def forget(self, target: Target) -> None:
        self.forgotten.append(target.dst_port)


class Neighbours:
    """The cluster: another host, and what is published."""

    name = "here"

    def __init__(self) -> None:
        self.told: dict[str, Any] = {}

    def refresh(self) -> None:
        pass

    def owners(self) -> dict[str, str]:
        return {SRC: "here", DST: "there"}

    def publish(self, kind: str, contents: Any) -> None:
        self.told[kind] = contents

    def published(self, kind: str, key: str) -> Any:
        return self.told.get(kind, {}).get(key)


class Stage:
    """A survey part whose clock is a number."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        job = JobConfig(name="train", local_ports=(40000,))
        config = Config(
            agent=OWN, gossip=GossipConfig(enabled=True),
            paths=PathsConfig(enabled=True), job=(job,),
        )  # fmt: skip
        self.host = ToyHost(folder, config)
        self.host.act()
        self.now = 1000.0
        clock = SimpleNamespace(monotonic=lambda: self.now, thread_time=time.thread_time)
        monkeypatch.setattr(module, "time", clock)
        monkeypatch.setattr(module, "nics", lambda _: [Nic("eth0", (SRC,), 1e9)])
        self.searches, self.cluster, self.picture = Searches(), Neighbours(), SteeringState()
        self.expected: dict[str, ExpectedJob] = {}
        self.told: list[JobProfile] = []
        profiles = SimpleNamespace(steady=lambda: self.told, expected=lambda: self.expected)
        self.part = SurveyTask(
            self.host, cast("Any", self.cluster), self.picture, cast("Any", profiles),
            lambda: Routing(destinations=(), flows=()), lambda _: self.searches,
        )  # fmt: skip
        self.part.start()

    async def see(self, *ports: int) -> None:
        """Survey connections of the job to these ports, until nothing is left to look for."""
        backend = self.host.engine.backend
        backend.sockets = [FakeSocket(rport=port) for port in ports]
        self.now += 1.0
        await self.part.tick()
        while len(asyncio.all_tasks()) > 1:  # searches
            await asyncio.sleep(0)
            await self.part.tick()
        await self.part.tick()

    def paths(self) -> list[str]:
        """Paths to the other host that are published."""
        paths: Paths = self.cluster.told[PATHS]["there"]
        return [path.id for path in paths.paths]


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    made = Stage(tmp_path, monkeypatch)
    yield made
    made.part.stop()


async def test_paths_of_a_job_that_ran_before_are_found_before_it_has_sent(stage: Stage) -> None:
    await stage.see(5301)
    assert stage.searches.looks == []
    stage.expected = {"train": ExpectedJob(frozenset({"198.18.0.9"}), 1e6)}
    await stage.see(5301)
    assert stage.searches.looks == []
    stage.expected = EXPECTED
    await stage.see(5301)
    assert stage.searches.looks == [(5301, False)]
    assert stage.paths() == ["one", "two"]


async def test_a_job_that_ran_before_is_awaited_for_a_while(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared_at: list[float] = []

    def compared(*_: object) -> frozenset[FlowKey]:
        compared_at.append(stage.now)
        return frozenset()

    monkeypatch.setattr(elephants, "stalled", compared)
    await stage.see()
    assert stage.part.every_s == module.TICK_S
    stage.expected = EXPECTED
    await stage.see()
    assert stage.part.every_s == module.FAST_S
    surveys = stage.picture.surveys
    for _ in range(5):
        stage.now += module.FAST_S
        await stage.part.tick()
    assert stage.picture.surveys > surveys + 1
    # In a tenth of a second a flow may well make no progress.
    assert min(after - before for before, after in pairwise(compared_at)) >= module.SURVEY_S
    stage.told = [JobProfile("train", 0.1, 0.1, 0.0, 0.0)]
    await stage.see()
    assert stage.part.every_s == module.TICK_S
    stage.told = []
    await stage.see()
    assert stage.part.every_s == module.FAST_S
    stage.now += module.MAX_FAST_S + 1.0
    assert stage.part.every_s == module.TICK_S


async def test_paths_are_kept_for_the_next_run_of_a_job(stage: Stage) -> None:
    stage.expected = EXPECTED
    await stage.see(5301)
    stage.now += FORGET_TARGET_S
    await stage.see()
    assert (stage.picture.known, stage.cluster.told[PATHS]) == ({}, {})
    # The same destination again: nothing is to be searched.
    await stage.see(5301)
    assert stage.searches.looks == [(5301, False)]
    assert stage.paths() == ["one", "two"]
    stage.now += FORGET_TARGET_S
    await stage.see()
    # To another port the paths are the same, but source ports and the flow's path are not.
    stage.searches.looks.clear()
    published = []
    publish = stage.cluster.publish

    def noted(kind: str, contents: Any) -> None:
        publish(kind, contents)
        if kind == PATHS and contents:
            published.append(stage.paths())

    stage.cluster.publish = noted  # type: ignore[method-assign]
    await stage.see(5302)
    assert stage.searches.looks == [(5302, True), (5302, False)]
    assert published[0] == ["one", "two"]
    assert all(one == ["one", "two"] for one in published)
    stage.now += KEEP_S
    await stage.see()
    await stage.see()
    assert sorted(stage.searches.forgotten) == [5301, 5302]


async def test_what_is_kept_is_bounded(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEEP_S", math.inf)
    stage.expected = EXPECTED
    for port in range(1, module.MAX_KEPT + 5):
        await stage.see(port)
        stage.now += FORGET_TARGET_S
    await stage.see()
    assert stage.searches.forgotten == list(range(1, 5))
