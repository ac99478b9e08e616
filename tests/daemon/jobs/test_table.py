"""Jobs come, share and go, against a kernel in memory."""

from __future__ import annotations

import os

import pytest

from hostcc.bpf.loader.errors import BpfError
from hostcc.config.schema import Config
from hostcc.config.sections.agent import AgentConfig
from hostcc.config.sections.job import JobConfig, JobRequest
from hostcc.config.sections.mltcp import MltcpConfig
from hostcc.daemon.jobs.claim import Claim
from hostcc.daemon.jobs.table import JOIN_GRACE_S
from hostcc.errors import HostccError
from hostcc.mltcp.params import Mode, Variant
from hostcc.mltcp.preference import FIRST_JOB_FACTOR
from hostcc.system.slices import at_once
from tests.daemon.jobs.world import OWN, World
from tests.fakes import FakeSocket, no_such_pid

pytestmark = pytest.mark.unit


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
    at_once(table.releasing("end"))
    assert fresh()


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
    assert (told.weight, told.plain_weight) == (16.0, 2.0)
    table.set_plan_factors({}, "a plan", frozenset({"ring"}))
    told = world.backend.jobs[slot]
    assert (told.weight, told.plain_weight) == (2.0, 1.0)
