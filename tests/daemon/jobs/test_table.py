"""Jobs come, share, go, and are taken over, against a kernel in memory."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hostcc.bpf.loader.errors import BpfError
from hostcc.config.schema import Config
from hostcc.config.sections.agent import AgentConfig
from hostcc.config.sections.job import JobConfig, JobRequest
from hostcc.config.sections.mltcp import MltcpConfig
from hostcc.daemon.changes import kinds
from hostcc.daemon.changes.journal import Journal
from hostcc.daemon.jobs import released as kept
from hostcc.daemon.jobs.claim import Claim
from hostcc.daemon.jobs.sockets import Job
from hostcc.daemon.jobs.table import JOBS_PER_SWEEP, JOIN_GRACE_S, JobTable
from hostcc.errors import HostccError
from hostcc.mltcp.params import Mode, Variant
from hostcc.mltcp.preference import FIRST_JOB_FACTOR
from hostcc.model import Change
from hostcc.system.procfs import Stat
from hostcc.system.slices import SLICE_S, at_once
from tests.fakes import FakeBackend, FakeSocket, FakeTree, no_such_pid

OWN = AgentConfig(network_namespaces="own")


class World:
    """One host: a tree, a journal, a kernel, a clock; agents come and go."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "run").mkdir()
        (folder / "cg").mkdir()
        self.tree = FakeTree(folder / "cg")
        self.now = 100.0
        self.backend = FakeBackend()
        self.journal = Journal(folder / "run")

    def agent(
        self, config: Config | None = None, left_groups: kept.LeftGroups | None = None
    ) -> JobTable:
        """A new agent on this host; the sockets stay."""
        self.journal.close()
        self.journal = Journal(self.folder / "run")
        self.journal.open()
        ended = kinds.ended_with_agent(self.journal.active.values())
        self.journal.undone(ended, "ended with the earlier agent")
        self.backend = FakeBackend(sockets=self.backend.sockets)
        table = JobTable(
            config or Config(agent=OWN),
            self.backend,
            self.tree,
            self.journal,
            "cubic",
            lambda: self.now,
        )
        table.start(left_groups)
        return table

    def socket_in(self, job: str) -> FakeSocket:
        sock = FakeSocket(cgroup_id=self.tree.identity(self.tree.path(job)))
        self.backend.sockets.append(sock)
        return sock

    def active(self) -> list[str]:
        return sorted(Journal(self.folder / "run").active)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_a_job_from_start_to_end(world: World) -> None:
    table = world.agent()
    group = table.register("a", JobRequest(weight=2.0), os.getpid())
    assert group == world.tree.path("a")
    assert group.is_dir()
    job = table.jobs["a"]
    assert world.backend.groups == {job.slot: [group]}
    assert world.backend.jobs[job.slot].weight == 2.0
    assert world.active() == [
        "cgroup",
        "job-cgroup:a",
        f"job-member:a:{os.getpid()}",
        "job-sockets:a",
    ]
    world.tree.join("a", 7)
    table.sweep()
    world.tree.leave("a")
    table.sweep()
    assert table.jobs == {}
    assert not group.exists()
    assert (world.backend.jobs, world.backend.groups) == ({}, {})
    assert world.active() == ["cgroup"]


def test_a_command_has_time_to_enter_its_group(world: World) -> None:
    table = world.agent()
    table.register("a", JobRequest(), os.getpid())
    table.sweep()
    assert "a" in table.jobs
    world.now += JOIN_GRACE_S + 1
    table.sweep()
    assert "a" not in table.jobs


def test_a_second_command_joins_and_changes_only_what_it_asks(world: World) -> None:
    table = world.agent()
    table.register("a", JobRequest(weight=2.0, bytes_per_iteration=5), os.getpid())
    told = len(world.backend.told)
    table.register("a", JobRequest(), os.getpid())
    assert len(world.backend.told) == told
    table.register("a", JobRequest(weight=3.0), os.getpid())
    params = world.backend.jobs[table.jobs["a"].slot]
    assert (params.weight, params.bytes_per_iteration) == (3.0, 5)
    assert len(table.jobs) == 1


def test_members_that_are_gone_leave_the_journal(world: World) -> None:
    table = world.agent()
    table.register("a", JobRequest(), no_such_pid())
    table.register("a", JobRequest(), os.getpid())
    members = [change for change in world.active() if change.startswith("job-member")]
    assert members == [f"job-member:a:{os.getpid()}"]


def test_the_toggle_moves_live_sockets_and_is_journalled(world: World) -> None:
    table = world.agent()
    table.register("a", JobRequest(), os.getpid())
    sock = world.socket_in("a")
    other = FakeSocket()
    world.backend.sockets.append(other)
    table.share(Mode.MLTCP, {}, "root asked")
    ours = world.backend.ca_names[Variant.HOSTCC]
    assert (sock.ca, other.ca) == (ours, "cubic")
    table.share(Mode.OFF, {}, "root asked")
    assert sock.ca == "cubic"
    assert "job-sockets:a" not in world.active()
    assert world.journal.active["mode"].before == "mltcp"
    table.share(Mode.STATIC, {"a": 4.0, "later": 2.0}, "root asked")
    assert sock.ca == ours
    assert world.backend.jobs[table.jobs["a"].slot].static_weight == 4.0
    table.register("later", JobRequest(), os.getpid())
    assert world.backend.jobs[table.jobs["later"].slot].static_weight == 2.0
    assert "job-sockets:a" in world.active()


def test_one_walk_for_all_jobs(world: World) -> None:
    table = world.agent()
    for name in "abc":
        table.register(name, JobRequest(), os.getpid())
    before = world.backend.walks
    table.share(Mode.OFF, {}, "x")
    assert world.backend.walks == before + 1


def test_port_rules(world: World) -> None:
    sock = FakeSocket(rport=5001)
    world.backend.sockets.append(sock)
    rule = JobConfig(name="r", remote_ports=("5000-5001",))
    table = world.agent(Config(agent=OWN, job=(rule,)))
    assert world.backend.root == world.tree.root
    assert world.backend.rules == {(5000, True): 1, (5001, True): 1}
    assert sock.ca.startswith("hcc_")
    table.sweep()
    assert "r" in table.jobs
    table.register("r", JobRequest(), os.getpid())
    world.now += JOIN_GRACE_S + 1
    table.sweep()
    assert table.jobs["r"].group is None
    table.configure(Config(agent=OWN))
    assert (table.jobs, world.backend.rules, sock.ca) == ({}, {}, "cubic")
    assert world.active() == ["cgroup"]


def test_reload_tells_the_kernel_only_what_is_new(world: World) -> None:
    table = world.agent()
    table.register("a", JobRequest(), os.getpid())
    table.register("b", JobRequest(), os.getpid())
    sock = world.socket_in("a")
    told, walks = len(world.backend.told), world.backend.walks
    table.configure(Config(agent=OWN))
    assert (len(world.backend.told), world.backend.walks) == (told, walks)
    table.configure(Config(agent=OWN, job=(JobConfig(name="a", slope=1.0),)))
    assert [slot for slot, _ in world.backend.told[told:]] == [table.jobs["a"].slot]
    assert world.backend.walks == walks
    table.configure(Config(agent=OWN, mltcp=MltcpConfig(variant=Variant.CUBIC)))
    assert sock.ca == world.backend.ca_names[Variant.CUBIC]


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
    assert table.release("rolled back") == []
    assert sock.ca == "cubic"
    assert world.tree.members == {Path("/user.slice/x"): {50}}
    assert not world.tree.base.exists()
    assert (world.backend.jobs, world.backend.groups, world.backend.rules) == ({}, {}, {})
    assert world.active() == []


def running(world: World, table: JobTable, job: str, pid: int, wishes: JobRequest) -> None:
    """A job with a process that an agent which ends finds by /proc."""
    world.tree.homes[pid] = f"/user.slice/{pid}"
    world.tree.stats[pid] = Stat("python", 1, pid * 100)
    table.register(job, wishes, pid)
    table.enter(job, pid)


@pytest.mark.parametrize("times", [1, 3])
def test_jobs_that_run_on_come_back_to_the_next_agent(world: World, times: int) -> None:
    table = world.agent()
    running(world, table, "a", 50, JobRequest(3.0, 77, 5e9))
    running(world, table, "ended", 51, JobRequest())
    sock = world.socket_in("a")
    for _ in range(times):
        table.share(Mode.MLTCP, {}, "x")
        assert sock.ca.startswith("hcc_")
        assert table.release("the agent stopped") == []
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
    assert table.release("rolled back") == []
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
    assert table.release("rolled back") == ["job b: the kernel refused"]
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
    table.release("the agent stopped")
    old = world.tree.path("a")
    (world.folder / "other").mkdir()
    world.tree.root, world.tree.base = world.folder / "other", world.folder / "other" / "hostcc"
    assert world.agent().jobs == {}
    assert not old.exists()
    assert world.active() == ["cgroup"]


def test_a_group_removed_or_replaced_by_hand_is_noted_and_left(world: World) -> None:
    table = world.agent()
    for name in ("gone", "new"):
        table.register(name, JobRequest(), os.getpid())
        world.tree.path(name).rmdir()
    (world.folder / "hold").mkdir()  # so that the inode number is not reused
    world.tree.path("new").mkdir()
    table.jobs["new"].group_id += 1_000_000
    table.sweep()
    assert table.jobs == {}
    assert world.tree.path("new").is_dir()
    texts = sorted(note.text.rpartition("/")[2] for note in world.journal.notes)
    assert texts == ["gone was removed by somebody else", "new was replaced by somebody else"]


def test_a_kernel_that_refuses_leaves_nothing_half_done(world: World) -> None:
    table = world.agent()
    for call in ("attach_cgroup", "set_job_params"):
        world.backend.fail = {call}
        with pytest.raises(BpfError):
            table.register("a", JobRequest(), os.getpid())
        assert (table.jobs, world.backend.groups) == ({}, {})
        assert not world.tree.path("a").exists()
        assert world.active() == ["cgroup"]
    world.backend.fail = set()
    table.register("a", JobRequest(), os.getpid())


def test_a_journal_that_cannot_be_written_means_no_change(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = world.agent()

    def full(*args: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr("hostcc.daemon.changes.journal.os.fsync", full)
        with pytest.raises(HostccError, match="No space left on device"):
            table.register("a", JobRequest(), os.getpid())
        assert (table.jobs, world.backend.jobs, world.backend.groups) == ({}, {}, {})
        assert not world.tree.path("a").exists()
    table.register("a", JobRequest(), os.getpid())


def test_slots_go_round_and_run_out(world: World) -> None:
    table = world.agent()
    table.register("a", JobRequest(), os.getpid())
    world.now += JOIN_GRACE_S + 1
    table.sweep()
    table.register("b", JobRequest(), os.getpid())
    assert table.jobs["b"].slot == 2
    for number in range(1022):
        table._new_job(f"n{number}")
    assert sorted(table.by_slot()) == list(range(1, 1024))
    with pytest.raises(HostccError, match="no job slot on this host: all 1023 are in use"):
        table.register("c", JobRequest(), os.getpid())


def test_one_user_has_so_many_slots_and_root_the_last(world: World) -> None:
    few = AgentConfig(network_namespaces="own", per_uid=2, for_root=1020)
    table = world.agent(Config(agent=few))
    for name, uid in (("a", 7), ("b", 7), ("c", 8)):
        table.register(name, JobRequest(), os.getpid(), "found", uid)
    before = world.active()
    with pytest.raises(HostccError, match="uid 7 has 2, the most for one user"):
        table.register("d", JobRequest(), os.getpid(), "found", 7)
    with pytest.raises(HostccError, match="the last 1020 are for root"):
        table.follow("d", [world.tree.base], "found", 9)
    assert (sorted(table.jobs), world.active()) == (["a", "b", "c"], before)
    table.register("d", JobRequest(), os.getpid())
    table.register("a", JobRequest(), os.getpid())  # root asks for it, too
    assert table.slots.held == {None: 2, 7: 1, 8: 1}
    table.register("e", JobRequest(), os.getpid(), "found", 7)
    table.configure(Config(agent=OWN))
    table.register("f", JobRequest(), os.getpid(), "found", 7)
    assert table.slots.held[7] == 3


@pytest.mark.parametrize("released", [False, True])
def test_whose_a_job_is_is_known_to_the_next_agent(world: World, released: bool) -> None:
    table = world.agent()
    for pid, name in ((50, "a"), (51, "b")):
        running(world, table, name, pid, JobRequest())
    table.register("theirs", JobRequest(), 52, "found", 7)
    world.tree.stats[52] = world.tree.stats[50]
    world.tree.enter(world.tree.path("theirs"), 52)
    if released:
        table.release("the agent stopped")
    strict = AgentConfig(network_namespaces="own", per_uid=1, for_root=1022)
    table = world.agent(Config(agent=strict))
    assert table.slots.held == {None: 2, 7: 1}


def test_several_registrations_are_put_on_disk_together(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = world.agent()
    synced: list[int] = []
    monkeypatch.setattr("hostcc.daemon.changes.journal.os.fsync", synced.append)
    claims = [Claim(f"j{number}", os.getpid(), "found", owner=7) for number in range(20)]
    table.prepare(claims)
    assert len(synced) == 1
    assert not world.tree.path("j0").exists()
    assert {"job-cgroup:j19", "job-sockets:j19", f"job-member:j19:{os.getpid()}"} <= set(
        world.active()
    )
    for job, pid, why, wishes, owner in claims[:10]:
        table.register(job, wishes, pid, why, owner)
    assert len(synced) == 1
    table.forgo(claims[10:])
    assert len(synced) == 2
    assert {one.partition(":")[2].partition(":")[0] for one in world.active()} == {
        "", *(f"j{number}" for number in range(10)),
    }  # fmt: skip


def test_a_sweep_ends_when_its_time_is_over(world: World) -> None:
    table = world.agent()
    for number in range(10):
        table.register(f"n{number}", JobRequest(), os.getpid())
    world.now += JOIN_GRACE_S + 1
    forget = table._forget

    def slow(job: Job) -> None:
        world.now += SLICE_S / 2.5
        forget(job)

    table._forget = slow  # type: ignore[method-assign]
    table.sweep()
    assert len(table.jobs) == 7
    for _ in range(3):
        table.sweep()
    assert table.jobs == {}


def test_processes_return_one_by_one_and_their_job_waits(world: World) -> None:
    table = world.agent()
    running(world, table, "a", 50, JobRequest())
    for pid in (51, 52):
        world.tree.stats[pid] = world.tree.stats[50]
        world.tree.join("a", pid)
    table.release("rolled back")
    left_groups = kept.left_groups(world.journal.active, world.tree)
    table = world.agent(left_groups=left_groups)
    steps = table.come_back()
    next(steps)
    assert table.returning.pending
    assert len(world.tree.members[world.tree.path("a")]) == 1
    world.tree.leave("a")  # as if it had not come yet
    table.sweep()
    assert list(table.jobs) == ["a"]
    assert table.release("stopped in the middle") == []
    started = kept.job_of(world.journal.active["job-cgroup:a"]).started
    assert len(started) == 2
    at_once(world.agent().come_back())
    assert len(world.tree.members[world.tree.path("a")]) == 2


def test_a_sweep_is_bounded_but_reaches_everybody(world: World) -> None:
    table = world.agent()
    for number in range(150):
        table.register(f"n{number}", JobRequest(), os.getpid())
    world.now += JOIN_GRACE_S + 1
    table.sweep()
    assert len(table.jobs) == 150 - JOBS_PER_SWEEP
    for _ in range(2 * 150 // JOBS_PER_SWEEP):
        table.sweep()
    assert table.jobs == {}


def test_what_may_be_another_job_is_another_edition(world: World) -> None:
    table, seen = world.agent(), set()

    def fresh() -> bool:
        new = table.edition not in seen
        seen.add(table.edition)
        return new

    assert fresh()
    assert not fresh()
    group = table.register("a", JobRequest(), os.getpid())
    assert fresh()
    world.tree.join("a", 7)
    table.sweep()
    table.refresh("again")
    fresh()
    table.register("a", JobRequest(weight=2.0), os.getpid())
    assert fresh()
    table.follow("b", [group], "slurm")
    assert fresh()
    table.configure(Config(agent=OWN))
    assert fresh()
    world.tree.leave("a")
    table.sweep()
    assert fresh()
    table.release("end")
    assert fresh()


def test_cgroups_of_others_are_followed_and_left_alone(world: World) -> None:
    table = world.agent()
    one, two = world.folder / "cg" / "slurm-1", world.folder / "cg" / "slurm-2"
    for group in (one, two):
        group.mkdir()
    table.follow("slurm:7", [one, two], "slurm: cgroup /slurm-1")
    job = table.jobs["slurm:7"]
    assert world.backend.groups == {job.slot: [one, two]}
    assert job.slot in world.backend.jobs
    assert {"job-followed:slurm:7", "job-sockets:slurm:7"} <= set(world.active())
    sock = FakeSocket(cgroup_id=world.tree.identity(two))
    world.backend.sockets.append(sock)
    table.share(Mode.MLTCP, {}, "test")
    assert sock.ca.startswith("hcc_")
    one.rmdir()
    table.sweep()
    assert world.backend.groups == {job.slot: [two]}
    table.follow("slurm:7", [], "no longer found")
    assert (table.jobs, world.backend.groups) == ({}, {})
    assert world.active() == ["cgroup", "mode"]
    assert two.is_dir()


def test_a_job_of_which_no_cgroup_is_left_is_not_kept(world: World) -> None:
    table = world.agent()
    table.follow("gone", [world.folder / "cg" / "no-such"], "test")
    assert table.jobs == {}
    group = world.folder / "cg" / "refused"
    group.mkdir()
    world.backend.fail = {"attach_cgroup"}
    with pytest.raises(BpfError):
        table.follow("refused", [group], "test")
    assert (table.jobs, world.active()) == ({}, ["cgroup"])


def test_release_gives_back_what_is_followed(world: World) -> None:
    table = world.agent()
    group = world.folder / "cg" / "theirs"
    group.mkdir()
    table.follow("found", [group], "test")
    sock = FakeSocket(cgroup_id=world.tree.identity(group))
    world.backend.sockets.append(sock)
    table.share(Mode.MLTCP, {}, "test")
    assert table.release("rolled back") == []
    assert (sock.ca, world.backend.groups, world.active()) == ("cubic", {}, [])
    assert group.is_dir()


def test_the_preferred_job_goes_first_and_its_owners_weight_comes_back(world: World) -> None:
    table = world.agent()
    table.register("a", JobRequest(weight=2.0), os.getpid())
    table.register("b", JobRequest(), os.getpid())
    slot = table.jobs["a"].slot
    table.set_preferred_job("a", "it is profiled")
    assert world.backend.jobs[slot].weight == 2.0 * FIRST_JOB_FACTOR
    assert table.weight_of(table.jobs["a"]) == 2.0
    table.set_preferred_job("b", "its turn")
    assert world.backend.jobs[slot].weight == 2.0
    table.share(Mode.STATIC, {}, "test")
    assert world.backend.jobs[table.jobs["b"].slot].weight == 1.0
    table.set_preferred_job("", "done")
    table.set_preferred_job("no such job", "test")


def test_what_a_plan_says_is_told_for_both_kinds_of_traffic(world: World) -> None:
    table = world.agent()
    table.register("ring", JobRequest(weight=2.0), os.getpid())
    slot = table.jobs["ring"].slot
    assert world.backend.jobs[slot].plain_weight == 2.0
    table.set_plan_factors({"ring": 8.0}, "a plan")
    told = world.backend.jobs[slot]
    assert (told.weight, told.plain_weight) == (16.0, 4.0)
    table.set_plan_factors({}, "a plan", frozenset({"ring"}))
    told = world.backend.jobs[slot]
    assert (told.weight, told.plain_weight) == (2.0, 1.0)
