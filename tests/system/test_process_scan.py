"""The snapshot: real /proc, processes that vanish or change, text that is not what it seems."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostcc.limits import is_job_name
from hostcc.measure.discover import cgroup_paths, names
from hostcc.measure.discover.owners import Owners, owner
from hostcc.system import process_scan, procfs
from hostcc.system.process_scan import Scanner
from hostcc.system.processes import MAX_VALUE, Process, ProcessRef
from tests.measure.recorded import lay_out, write_process

pytestmark = pytest.mark.unit


def by_pid(scanner: Scanner) -> dict[int, Process]:
    return {process.pid: process for process in scanner.snapshot().processes}


def test_this_host() -> None:
    environment = {"RANK": "3", "MASTER_ADDR": "here", "SECRET": "x", "PATH": "/usr/bin:/bin"}
    with subprocess.Popen(["sleep", "60"], env=environment) as child:
        try:
            snapshot = Scanner().snapshot()
        finally:
            child.kill()
    found = {process.pid: process for process in snapshot.processes}
    seen = found[child.pid]
    assert (seen.parent, seen.uid) == (os.getpid(), os.getuid())
    assert (seen.comm, seen.cmdline) == ("sleep", "sleep 60")
    assert seen.environ == {"RANK": "3", "MASTER_ADDR": "here"}
    assert seen.started > 0
    assert snapshot.complete
    assert snapshot.host


def test_the_tops_of_the_trees(tmp_path: Path) -> None:
    groups = lay_out("slurm-v2", tmp_path).snapshot().groups
    assert "/system.slice/slurmstepd.scope" in groups
    assert "/system.slice/slurmstepd.scope/system" not in groups  # two levels are enough
    assert any(cgroup_paths.is_slurm_root(group) for group in groups)
    first = lay_out("slurm-v1-nodename", tmp_path / "2").snapshot().groups
    assert "/slurm_node02" in first


def test_a_known_process_is_not_read_again(tmp_path: Path) -> None:
    scanner = lay_out("torchrun", tmp_path)
    for _ in range(process_scan.SETTLING_SCANS):
        by_pid(scanner)
    before = by_pid(scanner)[800]
    at = tmp_path / "proc/800"
    (at / "environ").write_bytes(b"RANK=99\0")
    assert by_pid(scanner)[800] is before
    write_process(at, 1, 1000, "python", started=501)  # another one with its number
    (at / "environ").write_bytes(b"RANK=99\0")
    assert by_pid(scanner)[800].environ == {"RANK": "99"}


def test_a_process_that_becomes_another_program(tmp_path: Path) -> None:
    scanner = lay_out("torchrun", tmp_path)
    for _ in range(process_scan.SETTLING_SCANS):
        by_pid(scanner)
    at = tmp_path / "proc/800"
    (at / "stat").write_text((at / "stat").read_text().replace("(python)", "(other) S) (x)"))
    (at / "environ").write_bytes(b"")
    assert by_pid(scanner)[800].comm == "other) S) (x"
    assert by_pid(scanner)[800].environ == {}
    (at / "cgroup").write_text("0::/moved\n")
    assert by_pid(scanner)[800].group == "/moved"
    for _ in range(process_scan.SETTLING_SCANS):
        by_pid(scanner)
    (at / "stat").write_text((at / "stat").read_text().replace(" S 1 ", " S 7 "))
    assert by_pid(scanner)[800].parent == 7


@pytest.mark.parametrize("gone", ["stat", "status", "cgroup", "cmdline", "environ", "."])
def test_what_vanishes_counts_for_nothing(gone: str, tmp_path: Path) -> None:
    scanner = lay_out("torchrun", tmp_path)
    by_pid(scanner)
    target = tmp_path / "proc/800" / gone
    shutil.rmtree(tmp_path / "proc/800") if gone == "." else target.unlink()
    found = by_pid(scanner)
    assert 801 in found
    assert (800 in found) is (gone in {"cgroup", "cmdline", "environ"})


def test_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scanner = lay_out("torchrun", tmp_path)
    monkeypatch.setattr(process_scan, "MAX_PROCESSES", 2)
    snapshot = scanner.snapshot()
    assert [process.pid for process in snapshot.processes] == [800, 801]
    assert not snapshot.complete
    monkeypatch.setattr(process_scan, "MAX_PROCESSES", 100)
    monkeypatch.setattr(process_scan, "MAX_GROUPS", 2)
    snapshot = scanner.snapshot()
    assert len(snapshot.groups) == 2
    assert not snapshot.complete
    long = tmp_path / "proc/800/environ"
    long.write_bytes(b"RANK=" + b"1" * (MAX_VALUE + 1) + b"\0MASTER_ADDR=a\0MASTER_ADDR=b\0")
    assert by_pid(scanner)[800].environ == {"MASTER_ADDR": "a"}


def test_a_look_that_is_not_full_reads_what_is_new_and_of_each_user_so_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scanner = lay_out("torchrun", tmp_path)
    write_process(tmp_path / "proc/2", 0, 0, "kthread")
    for _ in range(process_scan.SETTLING_SCANS):
        by_pid(scanner)
    monkeypatch.setattr(process_scan, "MAX_NEW_PER_USER", 2)
    read: list[int] = []
    look = scanner._look

    def seen(pid: int) -> tuple[Process, int] | None:
        read.append(pid)
        return look(pid)

    monkeypatch.setattr(scanner, "_look", seen)
    known = by_pid(scanner)
    del read[:]
    assert scanner.snapshot(full=False).complete
    assert read == []
    for pid in range(901, 906):
        write_process(tmp_path / f"proc/{pid}", 1, 1000, "python", started=pid)
    uids = {905: 7}
    monkeypatch.setattr(scanner, "_user", lambda pid: uids.get(pid, 1000))
    looks = [scanner.snapshot(full=False) for _ in range(2)]
    assert [one.complete for one in looks] == [False, True]
    assert [sorted({p.pid for p in one.processes} - known.keys()) for one in looks] == [
        [901, 902, 905], [901, 902, 903, 904, 905],
    ]  # fmt: skip
    scanner.forget([800])
    shutil.rmtree(tmp_path / "proc/905")
    del read[:]
    found = {process.pid for process in scanner.snapshot(full=False).processes}
    assert 800 in read
    assert 905 not in found
    assert {800, 901, 904} <= found


def test_kernel_threads_are_left_out(tmp_path: Path) -> None:
    scanner = lay_out("torchrun", tmp_path)
    for pid, parent in ((2, 0), (9, 2)):
        write_process(tmp_path / f"proc/{pid}", parent, 0, "kthread")
    assert not {2, 9} & by_pid(scanner).keys()


def test_paths_that_tell_nothing() -> None:
    raw = b"0::/../other\n5:cpu:/a (deleted)\n4:memory:/\n3:x:relative\n2:y:/b\n1:z:/b\n"
    assert procfs.cgroups(raw) == ("", ("/b",))
    assert procfs.cgroups(b"0::/" + b"x" * 5000 + b"\n") == ("", ())


@given(st.binary(max_size=400))
def test_any_bytes_can_be_in_proc(raw: bytes) -> None:
    procfs.stat(raw)
    procfs.stat(b"5 (x) S " + raw)
    procfs.real_uid(b"\nUid:" + raw)
    procfs.cmdline(raw)
    for line in (raw, b"0::/" + raw):
        second, first = procfs.cgroups(line)
        for path in (second, *first):
            cgroup_paths.slurm_job(path)
            cgroup_paths.pod(path)
            cgroup_paths.unit(path)
    assert "RANK" in procfs.environ(b"RANK=" + raw[:MAX_VALUE])
    procfs.mounts(raw.decode(errors="replace"))


@given(st.lists(st.text(), min_size=1), st.lists(st.text(), min_size=1))
def test_names_are_valid_and_tell_apart(one: list[str], other: list[str]) -> None:
    assert is_job_name(names.job_id(*one))
    if ":".join(one) != ":".join(other):
        assert names.job_id(*one) != names.job_id(*other)


def test_addresses() -> None:
    assert names.address("[FD00::0001]") == "fd00::1"
    assert names.address("Node-1.Example.") == "node-1.example"
    for wrong in (None, "", "a b", "-x", "x" * 300, "a/b", "ü"):
        assert names.address(wrong) is None
    assert all(map(names.is_loopback, ("localhost", "localhost.localdomain", "127.0.0.9", "::1")))
    assert names.is_loopback("0.0.0.0")
    assert not any(map(names.is_loopback, ("10.0.0.1", "localhosts", "fd00::1")))


def test_owners(tmp_path: Path) -> None:
    lay_out("slurm-v1", tmp_path / "1")
    lay_out("slurm-v2", tmp_path / "2")
    job = {"/system.slice/slurmstepd.scope/job_123": "slurm:123"}
    second = Owners(groups=job, proc=tmp_path / "2/proc")
    assert second.of_all([4242, 4243, 5000, 12345]) == {4242: "slurm:123", 4243: "slurm:123"}
    first = Owners(
        v1_groups={"/slurm/uid_1000/job_123": "slurm:123"},
        loose={ProcessRef(5001, 500): "slurm:123", ProcessRef(5000, 499): "old"},
        proc=tmp_path / "1/proc",
    )
    assert first.of(4242) == first.of(5001) == "slurm:123"
    assert first.of(5000) is None  # the number was given to another process
    assert owner("/a/b/c", {"/a": "x", "/a/b": "y"}) == "y"
    assert owner("/ab", {"/a": "x"}) is None
    assert owner("", {"": "x", "/": "x"}) is None
