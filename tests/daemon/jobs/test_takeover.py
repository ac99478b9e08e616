"""What an agent leaves of its jobs, and what the next one makes of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hostcc.bpf.loader.errors import BpfError
from hostcc.config.schema import Config
from hostcc.config.sections.agent import AgentConfig
from hostcc.config.sections.job import JobConfig, JobRequest
from hostcc.daemon.changes import kinds
from hostcc.daemon.jobs import released as kept
from hostcc.errors import HostccError
from hostcc.mltcp.params import Mode
from hostcc.model import Change
from hostcc.system.slices import at_once
from tests.daemon.jobs.world import OWN, World, running

pytestmark = pytest.mark.unit


def test_an_agent_takes_over_jobs_that_still_run(world: World) -> None:
    table = world.agent()
    table.register("live", JobRequest(3.0, 77), os.getpid())
    table.register("dead", JobRequest(), os.getpid())
    world.tree.join("live", 7)
    sock = world.socket_in("live")
    table = world.agent()
    assert list(table.jobs) == ["live"]
    assert table.jobs["live"].wishes == JobRequest(3.0, 77)
    assert sock.ca.startswith("hcc_")
    assert not world.tree.path("dead").exists()
    assert [c for c in world.active() if "dead" in c] == []


def test_a_group_nobody_remembers(world: World) -> None:
    world.tree.base.mkdir()
    world.tree.path("x").mkdir()
    world.tree.path("not a name").mkdir()
    world.tree.join("x", 5)
    assert list(world.agent().jobs) == ["x"]
    assert not world.tree.path("not a name").exists()


def test_release_restores_the_host(world: World) -> None:
    rule = JobConfig(name="r", local_ports=(9,))
    table = world.agent(Config(agent=OWN, job=(rule,)))
    world.tree.homes[50] = "/user.slice/x"
    table.register("a", JobRequest(), 50)
    world.tree.join("a", 50)
    sock = world.socket_in("a")
    table.share(Mode.MLTCP, {}, "x")
    assert sock.ca.startswith("hcc_")
    assert at_once(table.releasing("rolled back")) == []
    assert sock.ca == "cubic"
    assert world.tree.members == {Path("/user.slice/x"): {50}}
    assert not world.tree.base.exists()
    assert (world.backend.jobs, world.backend.groups, world.backend.rules) == ({}, {}, {})
    assert world.active() == []


@pytest.mark.parametrize("times", [1, 3])
def test_jobs_that_run_on_come_back_to_the_next_agent(world: World, times: int) -> None:
    table = world.agent()
    running(world, table, "a", 50, JobRequest(3.0, 77, 5e9))
    running(world, table, "ended", 51, JobRequest())
    sock = world.socket_in("a")
    for _ in range(times):
        table.share(Mode.MLTCP, {}, "x")
        assert sock.ca.startswith("hcc_")
        assert at_once(table.releasing("the agent stopped")) == []
        assert sock.ca == "cubic"
        assert world.tree.members.get(Path("/user.slice/50")) == {50}
        assert not world.tree.members.get(world.tree.path("a"))
        assert "job-cgroup:a" in world.active()
        assert not [one for one in world.active() if one.startswith("job-member")]
        world.tree.stats.pop(51, None)
        table = world.agent()
        assert list(table.jobs) == ["a"]
        assert table.jobs["a"].wishes == JobRequest(3.0, 77, 5e9)
        assert world.tree.members[world.tree.path("a")] == {50}
        assert world.journal.active["job-member:a:50"].before == "/user.slice/50"
        assert world.active() == ["cgroup", "job-cgroup:a", "job-member:a:50", "job-sockets:a"]
    assert not world.tree.path("ended").exists()
    world.tree.leave("a")
    table.sweep()
    assert (table.jobs, world.active()) == ({}, ["cgroup"])


def test_what_cannot_be_kept_is_undone_all_the_same(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    table = world.agent()
    running(world, table, "a", 50, JobRequest())
    begin = world.journal.begin

    def full(*changed: Change) -> None:
        if any(one.what == kinds.GROUP for one in changed):
            raise HostccError("No space left on device")
        begin(*changed)

    monkeypatch.setattr(world.journal, "begin", full)
    assert at_once(table.releasing("rolled back")) == []
    assert world.tree.members == {Path("/user.slice/50"): {50}}
    assert not world.tree.base.exists()
    assert world.active() == []
    assert "the next agent will not know a job" in caplog.text


def test_a_job_that_cannot_be_undone_does_not_keep_the_others(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = world.agent()
    for pid, name in ((50, "a"), (51, "b"), (52, "c")):
        running(world, table, name, pid, JobRequest())
    detach, slot = world.backend.detach_cgroup, table.jobs["b"].slot

    def refuses(at: int, cgroup: Path | None = None) -> None:
        if at == slot:
            raise BpfError("the kernel refused")
        detach(at, cgroup)

    monkeypatch.setattr(world.backend, "detach_cgroup", refuses)
    assert at_once(table.releasing("rolled back")) == ["job b: the kernel refused"]
    assert list(world.backend.jobs) == [slot]
    homes = {Path(f"/user.slice/{pid}"): {pid} for pid in (50, 52)}
    assert {at: pids for at, pids in world.tree.members.items() if pids} == {
        **homes,
        world.tree.path("b"): {51},
    }
    assert world.backend.rules == {}


def test_groups_of_another_root_are_let_go(world: World) -> None:
    table = world.agent()
    running(world, table, "a", 50, JobRequest())
    at_once(table.releasing("the agent stopped"))
    old = world.tree.path("a")
    (world.folder / "other").mkdir()
    world.tree.root, world.tree.base = world.folder / "other", world.folder / "other" / "hostcc"
    assert world.agent().jobs == {}
    assert not old.exists()
    assert world.active() == ["cgroup"]


@pytest.mark.parametrize("released", [False, True])
def test_whose_a_job_is_is_known_to_the_next_agent(world: World, released: bool) -> None:
    table = world.agent()
    for pid, name in ((50, "a"), (51, "b")):
        running(world, table, name, pid, JobRequest())
    table.register("theirs", JobRequest(), 52, "found", 7)
    world.tree.stats[52] = world.tree.stats[50]
    world.tree.enter(world.tree.path("theirs"), 52)
    if released:
        at_once(table.releasing("the agent stopped"))
    strict = AgentConfig(network_namespaces="own", per_uid=1, for_root=1022)
    table = world.agent(Config(agent=strict))
    assert table.slots.held == {None: 2, 7: 1}


def test_processes_return_one_by_one_and_their_job_waits(world: World) -> None:
    table = world.agent()
    running(world, table, "a", 50, JobRequest())
    for pid in (51, 52):
        world.tree.stats[pid] = world.tree.stats[50]
        world.tree.join("a", pid)
    at_once(table.releasing("rolled back"))
    left_groups = kept.left_groups(world.journal.active, world.tree)
    table = world.agent(left_groups=left_groups)
    steps = table.come_back()
    next(steps)
    assert table.returning.pending
    assert len(world.tree.members[world.tree.path("a")]) == 1
    world.tree.leave("a")  # as if it had not come yet
    table.sweep()
    assert list(table.jobs) == ["a"]
    assert at_once(table.releasing("stopped in the middle")) == []
    started = kept.job_of(world.journal.active["job-cgroup:a"]).started
    assert len(started) == 2
    at_once(world.agent().come_back())
    assert len(world.tree.members[world.tree.path("a")]) == 2
