"""The part that marks, on a kernel in memory."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hostcc.config.schema import Config
from hostcc.config.sections.agent import AgentConfig
from hostcc.config.sections.job import JobConfig, JobRequest
from hostcc.config.sections.marking import MarkingConfig
from hostcc.daemon.changes import path_kinds
from hostcc.daemon.jobs import sockets
from hostcc.daemon.marking.level_marks import STRAYS_S, WALK_INTERVAL_S, LevelMarks
from hostcc.paths.mark_kernel import JobMark, WalkResult
from hostcc.system.slices import at_once
from tests.daemon.declared import check_declared
from tests.daemon.planning.made import ToyPlans, made
from tests.daemon.profiling.hosts import OWN, ToyHost

pytestmark = pytest.mark.unit

HIGH, LOW = JobMark(40 << 2), JobMark(32 << 2)


class Kernel:
    """What a MarkKernel was told."""

    def __init__(self) -> None:
        self.jobs: dict[int, JobMark] = {}
        self.groups: set[tuple[int, Path]] = set()
        self.ports: dict[tuple[int, bool], int] = {}
        self.root: Path | None = None
        self.walks: list[dict[int, JobMark]] = []
        self.foreign = 0
        self.refuses = False
        self.closed = False

    def set_job(self, slot: int, mark: JobMark | None) -> None:
        self.jobs.pop(slot, None)
        if mark is not None:
            self.jobs[slot] = mark

    def attach(self, slot: int, group: Path) -> None:
        self.groups.add((slot, group))

    def detach(self, slot: int, group: Path) -> None:
        self.groups.discard((slot, group))

    def detached(self, slot: int, group: Path) -> bool:
        return (slot, group) not in self.groups

    def attach_rules(self, root: Path) -> None:
        self.root = root

    def set_ports(self, rules: Mapping[tuple[int, bool], int]) -> None:
        self.ports = dict(rules)

    def set_cgroup_ids(self, ids: Mapping[int, int]) -> None:
        pass

    def walk(self, where: Iterable[Path | None]) -> WalkResult:
        assert list(where)
        if self.refuses:
            raise OSError(errno.EMFILE, "Too many open files")
        self.walks.append(dict(self.jobs))
        return WalkResult(self.foreign, 0, self.foreign, 0)

    def close(self) -> None:
        self.closed = True


class Guard:
    def __init__(self, kernel: Kernel, *, everywhere: bool) -> None:
        self.alive, self.dismissed, self.everywhere = True, False, everywhere
        self.took_over = False

    def dismiss(self) -> None:
        self.dismissed = True

    def take_over(self) -> None:
        self.took_over = True


class World:
    def __init__(self, folder: Path) -> None:
        rule = JobConfig(name="svc", local_ports=(7,))
        config = Config(agent=OWN, marking=MarkingConfig(enabled=True), job=(rule,))
        self.host = ToyHost(folder, config)
        self.table = self.host.act()
        self.plans = ToyPlans(made())
        self.kernels: list[Kernel] = []
        self.guards: list[Guard] = []
        self.now = 0.0
        self.part = LevelMarks(
            self.host,
            self.plans,
            self.kernel,  # type: ignore[arg-type]
            self.guard,  # type: ignore[arg-type]
            lambda: self.now,
        )

    def kernel(self, flows: object) -> Kernel:
        assert self.host.engine is not None
        assert flows is self.host.engine.backend.shared_maps.get("flows")
        self.kernels.append(Kernel())
        return self.kernels[-1]

    def guard(self, kernel: Kernel, *, everywhere: bool) -> Guard:
        self.guards.append(Guard(kernel, everywhere=everywhere))
        return self.guards[-1]

    def job(self, name: str) -> int:
        self.table.register(name, JobRequest(), os.getpid())
        return self.table.jobs[name].slot

    def start(self) -> Kernel:
        assert self.part.disabled_reason() == ""
        asyncio.run(self.part.start())
        self.tick()
        return self.kernels[-1]

    def tick(self) -> None:
        asyncio.run(self.part.tick())

    def journalled(self) -> dict[str, Any]:
        found = self.host.journal.active.values()
        return {one.id: one.after for one in found if one.what == path_kinds.MARKS}


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_jobs_of_the_plan_are_marked_and_walked_over(world: World) -> None:
    a, other = world.job("a"), world.job("other")
    kernel = world.start()
    assert kernel.jobs == {a: HIGH}
    assert {slot for slot, _ in kernel.groups} == {a}
    assert kernel.walks == [{a: HIGH}]
    assert world.journalled() == {"job-mark:a": {"dscp": 40}}
    world.tick()
    assert len(kernel.walks) == 1  # nothing new
    world.now = WALK_INTERVAL_S
    world.tick()
    assert len(kernel.walks) == 2
    assert other not in kernel.jobs
    assert world.part.verify() == []


def test_a_new_plan_is_brought_to_sockets_at_once(world: World) -> None:
    a = world.job("a")
    kernel = world.start()
    world.plans.result = made("e", first="b")
    world.tick()
    assert kernel.walks[-1] == {a: LOW}
    assert world.journalled() == {"job-mark:a": {"dscp": 32}}
    world.plans.result = None
    world.tick()
    assert kernel.walks[-1] == {}
    assert kernel.groups == set()
    assert world.journalled() == {}


def test_a_job_that_is_profiled_has_the_highest_mark(world: World) -> None:
    world.plans.result = made(first="b")
    a, new = world.job("a"), world.job("new")
    kernel = world.start()
    assert kernel.jobs == {a: LOW}
    world.table.set_preferred_job("new", "it is profiled")
    world.tick()
    assert kernel.walks[-1] == {a: LOW, new: HIGH}
    world.plans.result = None
    world.tick()
    assert kernel.walks[-1] == {new: HIGH}
    world.table.set_preferred_job("", "it is known")
    world.tick()
    assert (kernel.walks[-1], world.journalled()) == ({}, {})


def test_jobs_that_come_and_go(world: World) -> None:
    kernel = world.start()
    assert kernel.walks == [{}]
    b = world.job("b")
    world.tick()
    assert kernel.walks[-1] == {b: LOW}
    at_once(world.table.releasing("gone"))
    world.tick()
    assert (kernel.jobs, kernel.groups, world.journalled()) == ({}, set(), {})


def test_connections_of_a_job_that_is_let_go_of_are_found(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are in network namespaces that nothing else names: those of all processes are seen."""
    everywhere = AgentConfig(network_namespaces="all")
    world.host.config = msgspec.structs.replace(world.host.config, agent=everywhere, job=())
    world.table.configure(world.host.config)
    seen: list[set[int]] = []

    def opened(pids: Iterable[int]) -> AbstractContextManager[list[Path | None]]:
        seen.append(set(pids))
        return nullcontext([None])

    monkeypatch.setattr(sockets, "opened", opened)
    group = world.host.folder / "pod"
    world.host.tree.create(group)
    world.host.tree.members[group] = {4711}
    world.table.follow("a", [group], "test")
    world.start()
    assert seen[-1] == {4711}
    world.table.follow("a", [], "discovery was turned off")
    world.tick()
    assert os.getpid() in seen[-1]
    world.table.follow("a", [group], "test")
    world.tick()
    assert seen[-1] == {4711}
    world.table.follow("a", [], "discovery was turned off")
    asyncio.run(world.part.stop())
    assert os.getpid() in seen[-1]


def test_ports_of_a_job_by_rule(world: World) -> None:
    svc = world.table.jobs["svc"].slot
    kernel = world.start()
    assert (kernel.ports, kernel.root) == ({}, None)
    plan = made()
    (first, *_) = plan.plan.jobs
    renamed = replace(plan.plan, jobs=(replace(first, job="svc"),))
    world.plans.result = replace(plan, plan=renamed)
    world.tick()
    assert (kernel.ports, kernel.root) == ({(7, False): svc}, world.table.tree.root)
    assert kernel.walks[-1] == {svc: HIGH}


def test_stopping_takes_all_marks_away(world: World) -> None:
    world.job("a")
    kernel = world.start()
    asyncio.run(world.part.stop())
    assert (kernel.walks[-1], kernel.closed) == ({}, True)
    assert world.guards[0].dismissed
    assert world.journalled() == {}
    asyncio.run(world.part.stop())  # after a start that failed


def test_the_guard_takes_away_what_a_stop_could_not(world: World) -> None:
    world.job("a")
    kernel = world.start()
    kernel.refuses = True
    with pytest.raises(OSError, match="Too many open files"):
        asyncio.run(world.part.stop())
    (guard,) = world.guards
    assert (guard.took_over, guard.dismissed) == (True, False)
    assert (kernel.jobs, kernel.closed) == ({}, True)
    assert world.journalled() == {"job-mark:a": {"dscp": 40}}  # for the next agent


def test_what_a_dead_agent_left_is_taken_away(world: World) -> None:
    a = world.job("a")
    world.host.journal.begin(path_kinds.mark("a", 24 << 2, "test"))
    marking = MarkingConfig(enabled=False)
    world.host.config = msgspec.structs.replace(world.host.config, marking=marking)
    kernel = world.start()
    assert kernel.walks == [{a: JobMark(stray=24 << 2)}]
    assert list(world.journalled()) == ["job-mark:a"]
    world.tick()
    assert (kernel.jobs, world.journalled()) == ({}, {})
    assert world.part.disabled_reason() == "marking.enabled is false"


def test_what_was_left_on_a_job_is_taken_away_before_it_is_marked(world: World) -> None:
    a = world.job("a")
    world.host.journal.begin(path_kinds.mark("a", 24 << 2, "test"))
    kernel = world.start()
    world.tick()
    assert kernel.walks == [{a: JobMark(stray=24 << 2)}, {a: HIGH}]
    assert world.journalled() == {"job-mark:a": {"dscp": 40}}


def test_what_a_dead_agent_left_waits_until_its_job_is_found_again(world: World) -> None:
    world.host.journal.begin(path_kinds.mark("z", 24 << 2, "test"))
    kernel = world.start()
    world.tick()
    assert list(world.journalled()) == ["job-mark:z"]
    z = world.job("z")
    world.tick()
    assert kernel.walks[-1] == {z: JobMark(stray=24 << 2)}
    world.tick()
    assert (kernel.jobs, world.journalled()) == ({}, {})


def test_what_was_left_on_a_job_that_does_not_come_back_is_given_up(world: World) -> None:
    world.host.journal.begin(path_kinds.mark("z", 24 << 2, "test"))
    world.start()
    world.now = STRAYS_S - 1
    world.tick()
    assert list(world.journalled()) == ["job-mark:z"]
    world.now = STRAYS_S + WALK_INTERVAL_S
    world.tick()
    assert world.journalled() == {}


def test_what_was_left_on_the_ports_of_a_rule_is_taken_away(world: World) -> None:
    svc = world.table.jobs["svc"].slot
    world.host.journal.begin(path_kinds.mark("svc", 24 << 2, "test"))
    kernel = world.start()
    assert kernel.walks == [{svc: JobMark(stray=24 << 2)}]
    assert kernel.ports == {(7, False): svc}


def test_a_guard_that_is_gone_is_replaced(world: World) -> None:
    world.start()
    world.guards[0].alive = False
    (found,) = world.part.verify()
    assert (found.id, found.found) == ("marking-guard", "gone")
    world.tick()
    assert len(world.guards) == 2
    assert world.part.verify() == []


def test_programs_that_are_gone_are_noticed(world: World) -> None:
    world.job("a")
    kernel = world.start()
    kernel.groups.clear()
    (found,) = world.part.verify()
    assert (found.id, found.found) == ("job-mark:a", "detached")


def test_another_engine_is_another_kernel(world: World) -> None:
    world.job("a")
    first = world.start()
    world.host.engine = None
    assert world.part.disabled_reason() == "nothing is changed on this host"
    table = world.host.act()
    world.table = table
    b = world.job("b")
    world.tick()
    assert first.closed
    assert world.kernels[1].jobs[b] == LOW


def test_what_applications_marked_is_told(world: World) -> None:
    kernel = world.start()
    kernel.foreign = 3
    world.now = WALK_INTERVAL_S
    world.tick()
    view = world.part.view()
    assert (view.left_alone, view.dscp) == (3, {})
    assert "left alone 3 connections" in (view.reason or "")
    check_declared(world.part)
