"""Found jobs become jobs of the table, on a kernel and a cgroup tree in memory."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hostcc.answers.parts import RefusedClaims
from hostcc.bpf.loader.errors import BpfError
from hostcc.config.schema import Config
from hostcc.config.sections.agent import AgentConfig
from hostcc.config.sections.discover import DiscoverConfig
from hostcc.config.sections.job import JobRequest
from hostcc.daemon.profiling.discovery import BUSY_GROUP, Discovery, within
from hostcc.daemon.profiling.live_jobs import DiscoveryResult, live_jobs, owners
from hostcc.system.cgroups import limits_nothing
from hostcc.system.process_scan import read
from hostcc.system.processes import FoundJob, Kind, Process, ProcessRef, Snapshot
from hostcc.system.procfs import stat
from tests.daemon.declared import check_declared
from tests.daemon.profiling.hosts import OWN, ToyHost

pytestmark = pytest.mark.unit

PID = os.getpid()


@pytest.fixture
def host(tmp_path: Path) -> ToyHost:
    return ToyHost(tmp_path)


def me() -> ProcessRef:
    found = stat(read(f"/proc/{PID}/stat", 4096))
    assert found is not None
    return ProcessRef(PID, found.started)


def found(host: ToyHost, *groups: str, loose: tuple[ProcessRef, ...] = ()) -> FoundJob:
    for group in groups:
        (host.folder / "cg" / group).mkdir(exist_ok=True)
    paths = tuple(f"/{group}" for group in groups)
    return FoundJob("slurm:7", Kind.SLURM, paths, loose=loose, evidence=("cgroup /slurm/7",))


def manage(part: Discovery, host: ToyHost, *those: FoundJob, limits: bool = False) -> None:
    mount = host.folder / "cg"
    (mount / "cgroup.subtree_control").write_text("cpu memory\n" if limits else "\n")
    part._seen.found, part._seen.mount = those, mount
    part._manage(those, mount)


def test_a_job_with_groups_of_its_own_is_followed_until_it_is_gone(host: ToyHost) -> None:
    table, part = host.act(), Discovery(host, DiscoveryResult())
    manage(part, host, found(host, "job_7"))
    assert table.jobs["slurm:7"].how == "slurm: cgroup /slurm/7"
    (job,) = live_jobs(host, part._seen)
    assert (job.slot, job.groups) == (1, (host.folder / "cg/job_7",))
    manage(part, host)
    assert table.jobs == {}


def test_without_managing_it_is_only_measured(host: ToyHost) -> None:
    host.config = Config(agent=OWN, discover=DiscoverConfig(manage=False))
    table, part = host.act(), Discovery(host, DiscoveryResult())
    manage(part, host, found(host, "job_7"))
    assert table.jobs == {}
    (job,) = live_jobs(host, part._seen)
    assert (job.slot, job.how, len(job.groups)) == (0, "slurm", 1)
    assert job.countable


def test_loose_processes_are_gathered_only_where_that_costs_no_limit(host: ToyHost) -> None:
    table, part = host.act(), Discovery(host, DiscoveryResult())
    manage(part, host, found(host, loose=(me(),)), limits=True)
    assert table.jobs == {}
    assert part._seen.unmanaged == {"slurm:7": BUSY_GROUP}
    assert [job.countable for job in live_jobs(host, part._seen)] == [False]
    manage(part, host, found(host, loose=(me(), ProcessRef(PID, 1))))
    assert part._seen.unmanaged == {}
    assert [job.countable for job in live_jobs(host, part._seen)] == [True]
    assert host.tree.pids(host.tree.path("slurm:7")) == [PID]
    assert f"job-member:slurm:7:{PID}" in host.journal.active


def test_a_refusal_is_the_jobs_own(host: ToyHost) -> None:
    table, part = host.act(), Discovery(host, DiscoveryResult())
    host.engine.backend.fail = {"attach_cgroup"}
    other = FoundJob("k8s:pod:x", Kind.KUBERNETES, loose=(me(),))
    manage(part, host, found(host, "job_7"), other)
    assert "told to fail" in part._seen.unmanaged["slurm:7"]
    assert isinstance(BpfError("x"), Exception)
    assert "slurm:7" not in table.jobs


def test_another_engine_is_told_anew(host: ToyHost) -> None:
    part = Discovery(host, DiscoveryResult())
    manage(part, host, found(host, "job_7"))
    table = host.act()
    manage(part, host, found(host, "job_7"))
    assert "slurm:7" in table.jobs
    host.engine = None
    manage(part, host)


def test_only_below_the_agents_root() -> None:
    processes = tuple(
        Process(pid, group=group)
        for pid, group in enumerate(("/a/b", "/a", "/ab", "/", "/a/hostcc/x"), start=1)
    )
    snapshot = Snapshot("h", processes)
    assert [p.pid for p in within(snapshot, "/a").processes] == [1, 2, 5]
    assert within(snapshot, "/") == snapshot


def test_nothing_outside_of_the_cgroup_namespace() -> None:
    groups = ("/..", "/../..", "/../../kubepods/pod1", "/..a", "", "/")
    processes = tuple(Process(pid, group=group) for pid, group in enumerate(groups, start=1))
    for inside, kept in (("/", [4, 5, 6]), ("/..a", [4])):
        assert [p.pid for p in within(Snapshot("h", processes), inside).processes] == kept


def test_limits(tmp_path: Path) -> None:
    assert not limits_nothing(None)
    assert not limits_nothing(tmp_path)
    (tmp_path / "cgroup.subtree_control").write_text("\n")
    assert limits_nothing(tmp_path)


def test_owners_know_found_processes(host: ToyHost) -> None:
    one = found(host, loose=(me(),))
    assert owners([], [one]).of(PID) == "slurm:7"


def crowd(count: int, uid: int) -> tuple[FoundJob, ...]:
    return tuple(
        FoundJob(f"rdv:{uid}:{number:04}", Kind.RENDEZVOUS, evidence=("x",), owner=uid)
        for number in range(count)
    )


def test_a_users_claims_are_admitted_up_to_the_quota_and_stay(
    host: ToyHost, caplog: pytest.LogCaptureFixture
) -> None:
    part = Discovery(host, DiscoveryResult())
    other = FoundJob("rdv:8:z", Kind.RENDEZVOUS, owner=8)
    host.config = Config(agent=AgentConfig(network_namespaces="own", per_uid=3))
    late = crowd(10, 7)[5:]
    first = part._admitted((*late, other))
    assert {one.id for one in first} == {"rdv:7:0005", "rdv:7:0006", "rdv:7:0007", "rdv:8:z"}
    part._seen.found = first
    for _ in range(3):
        again = part._admitted((*crowd(10, 7), other))
        assert {one.id for one in again} == {one.id for one in first}
    view = part.view()
    why = "uid 7 has 3, the most for one user (agent.per_uid)"
    assert view.refused == [RefusedClaims(uid=7, claims=7, why=why)]
    assert (view.claims_refused, view.reason) == (7, f"7 claims refused: {why}")
    check_declared(part)
    assert caplog.text.count("claims refused") == 1
    table = host.act()
    for number in range(3):
        table.register(f"gathered{number}", JobRequest(), PID, "x", 7)
    assert part._admitted((*crowd(10, 7), other)) == (other,)


def test_of_each_user_so_many_processes_are_registered_at_a_look(
    host: ToyHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.config = Config(agent=AgentConfig(network_namespaces="own", per_uid=4))
    table, part = host.act(), Discovery(host, DiscoveryResult())
    monkeypatch.setattr(part, "_is_loose", lambda ref: True)
    made = [
        FoundJob(f"rdv:{uid}:{job}", Kind.RENDEZVOUS, owner=uid, loose=loose)
        for uid in (7, 8)
        for job in range(2)
        if (loose := tuple(ProcessRef(1000 * uid + 100 * job + rank, 1) for rank in range(3)))
    ]
    manage(part, host, *made)
    assert [len(host.tree.pids(host.tree.path(one.id))) for one in made] == [2, 2, 2, 2]
    assert part.view().waiting == 4
    assert {job.how for job in table.jobs.values()} == {"rendezvous: "}
    assert table.slots.held == {7: 2, 8: 2}


def test_nothing_is_registered_once_the_agent_has_let_go(host: ToyHost) -> None:
    table, part = host.act(), Discovery(host, DiscoveryResult())
    (host.folder / "cg" / "cgroup.subtree_control").write_text("\n")
    loose = FoundJob("rdv:7:a", Kind.RENDEZVOUS, owner=7, loose=(me(),))
    steps = part._managing((loose,), host.folder / "cg")
    next(steps)
    next(steps)  # prepared
    assert "job-cgroup:rdv:7:a" in host.journal.active
    host.engine = None
    assert list(steps) == []
    assert (table.jobs, list(host.journal.active)) == ({}, ["cgroup"])


def test_a_process_in_a_jobs_group_is_not_moved(host: ToyHost, tmp_path: Path) -> None:
    part = Discovery(host, DiscoveryResult(), tmp_path)
    ref = me()
    at = tmp_path / str(ref.pid)
    at.mkdir()
    (at / "stat").write_bytes(read(f"/proc/{PID}/stat", 4096))
    for group, loose in (("/user.slice", True), ("/x/hostcc/a", False), ("/hostcc/a/b", False)):
        (at / "cgroup").write_text(f"0::{group}\n")
        assert part._is_loose(ref) is loose
    assert not part._is_loose(ProcessRef(ref.pid, 1))


def test_a_crowd_does_not_make_looks_rare(host: ToyHost, monkeypatch: pytest.MonkeyPatch) -> None:
    now, spent = 100.0, 0.0
    part = Discovery(host, DiscoveryResult(), clock=lambda: now)
    fulls: list[bool] = []

    class Looks:
        def snapshot(self, *, full: bool) -> Snapshot:
            nonlocal spent
            fulls.append(full)
            spent += 0.3 if full else 0.02
            return Snapshot("h")

    monkeypatch.setattr("hostcc.daemon.profiling.discovery.time.thread_time", lambda: spent)
    for _ in range(8):
        part._look(Looks(), part._host.config.discover.rules, "/")  # type: ignore[arg-type]
        assert part.every_s == 10.0
        now += part.every_s
    assert fulls == [True, False, False, False, False, False, True, False]
