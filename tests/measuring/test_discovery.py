"""Found jobs become jobs of the table, on a kernel and a cgroup tree in memory."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hostcc.bpf.errors import BpfError
from hostcc.config import Config
from hostcc.measure.discover.procfs import stat
from hostcc.measure.discover.scan import read
from hostcc.measure.discover.types import Found, Kind, Process, ProcessRef, Snapshot
from hostcc.measuring.discovery import BUSY_GROUP, Discovery, limits_nothing, within
from hostcc.measuring.livejobs import Seen, live_jobs, owners
from hostcc.sections.discover import DiscoverConfig
from tests.measuring.hosts import OWN, ToyHost

pytestmark = pytest.mark.unit

PID = os.getpid()


@pytest.fixture
def host(tmp_path: Path) -> ToyHost:
    return ToyHost(tmp_path)


def me() -> ProcessRef:
    found = stat(read(f"/proc/{PID}/stat", 4096))
    assert found is not None
    return ProcessRef(PID, found.started)


def found(host: ToyHost, *groups: str, loose: tuple[ProcessRef, ...] = ()) -> Found:
    for group in groups:
        (host.folder / "cg" / group).mkdir(exist_ok=True)
    paths = tuple(f"/{group}" for group in groups)
    return Found("slurm:7", Kind.SLURM, paths, loose=loose, evidence=("cgroup /slurm/7",))


def manage(part: Discovery, host: ToyHost, *those: Found, limits: bool = False) -> None:
    mount = host.folder / "cg"
    (mount / "cgroup.subtree_control").write_text("cpu memory\n" if limits else "\n")
    part._seen.found, part._seen.mount = those, mount
    part._manage(those, mount)


def test_a_job_with_groups_of_its_own_is_followed_until_it_is_gone(host: ToyHost) -> None:
    table, part = host.act(), Discovery(host, Seen())
    manage(part, host, found(host, "job_7"))
    assert table.jobs["slurm:7"].how == "slurm: cgroup /slurm/7"
    (job,) = live_jobs(host, part._seen)
    assert (job.slot, job.groups) == (1, (host.folder / "cg/job_7",))
    manage(part, host)
    assert table.jobs == {}


def test_without_managing_it_is_only_measured(host: ToyHost) -> None:
    host.config = Config(agent=OWN, discover=DiscoverConfig(manage=False))
    table, part = host.act(), Discovery(host, Seen())
    manage(part, host, found(host, "job_7"))
    assert table.jobs == {}
    (job,) = live_jobs(host, part._seen)
    assert (job.slot, job.how, len(job.groups)) == (0, "slurm", 1)


def test_loose_processes_are_gathered_only_where_that_costs_no_limit(host: ToyHost) -> None:
    table, part = host.act(), Discovery(host, Seen())
    manage(part, host, found(host, loose=(me(),)), limits=True)
    assert table.jobs == {}
    assert part._seen.unmanaged == {"slurm:7": BUSY_GROUP}
    manage(part, host, found(host, loose=(me(), ProcessRef(PID, 1))))
    assert part._seen.unmanaged == {}
    assert host.tree.pids(host.tree.path("slurm:7")) == [PID]
    assert f"job-member:slurm:7:{PID}" in host.journal.active


def test_a_refusal_is_the_jobs_own(host: ToyHost) -> None:
    table, part = host.act(), Discovery(host, Seen())
    host.engine.backend.fail = {"attach_cgroup"}
    other = Found("k8s:pod:x", Kind.KUBERNETES, loose=(me(),))
    manage(part, host, found(host, "job_7"), other)
    assert "told to fail" in part._seen.unmanaged["slurm:7"]
    assert isinstance(BpfError("x"), Exception)
    assert "slurm:7" not in table.jobs


def test_another_engine_is_told_anew(host: ToyHost) -> None:
    part = Discovery(host, Seen())
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
    assert within(snapshot, "/") is snapshot


def test_limits(tmp_path: Path) -> None:
    assert not limits_nothing(None)
    assert not limits_nothing(tmp_path)
    (tmp_path / "cgroup.subtree_control").write_text("\n")
    assert limits_nothing(tmp_path)


def test_owners_know_found_processes(host: ToyHost) -> None:
    one = found(host, loose=(me(),))
    assert owners([], [one]).of(PID) == "slurm:7"
