"""Files of counters: what is read of them, and what is no such file."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hostcc.verbs import plan_region, process_counts

pytestmark = pytest.mark.unit


@pytest.fixture
def path() -> Iterator[Path]:
    place = Path(f"/dev/shm/hostcc-test-counts-{os.getpid()}")
    yield place
    for one in place.parent.glob(f"{place.name}.*"):
        one.unlink()


def a_process(**more: int) -> plan_region.CountsEntry:
    made = plan_region.CountsEntry(
        magic=plan_region.MAGIC, version=plan_region.VERSION, pid=7, name=b"job", **more
    )
    pair = made.qp[5]
    pair.qpn, pair.bytes, pair.source, pair.device = 17, 1 << 40, 1 << 16 | 3, b"mlx5_0"
    pair.dgid[:] = plan_region.gid_of("198.18.0.1")
    return made


def test_counts_of_odd_files(path: Path) -> None:
    places = [path.with_name(f"{path.name}.{end}") for end in ("1", "2", "3", "4", "5", "x")]
    places[0].write_bytes(bytes(a_process(iteration=9)))
    places[1].write_bytes(b"garbage")
    places[2].write_bytes(bytes(ctypes.sizeof(plan_region.CountsEntry)))
    os.mkfifo(places[3])  # would block who opens it
    places[4].symlink_to(places[0])
    places[5].write_bytes(bytes(a_process()))  # no process is called so
    (found,) = process_counts.read_counts(path)
    assert (found.job, found.pid, found.iteration, found.uid) == ("job", 1, 9, os.geteuid())
    (pair,) = found.qps
    assert (pair.qpn, pair.bytes, pair.device) == (17, 1 << 40, "mlx5_0")
    assert (pair.device_port, pair.gid_index, pair.destination) == (1, 3, "198.18.0.1")


def test_a_name_that_is_none(path: Path) -> None:
    odd = a_process()
    odd.name = b"a b"
    odd.qp[5].device = b"\xff\xfe"
    path.with_name(f"{path.name}.1").write_bytes(bytes(odd))
    (found,) = process_counts.read_counts(path)
    assert found.job == ""
    assert found.qps[0].device == "\ufffd\ufffd"


def test_files_of_the_dead_are_swept(path: Path) -> None:
    mine, dead = (path.with_name(f"{path.name}.{pid}") for pid in (os.getpid(), 2**22 + 7))
    for place in (mine, dead):
        place.write_bytes(b"")
    assert process_counts.sweep(path) == 1
    assert mine.exists()


HOLDER = """
import fcntl, sys
file = open(sys.argv[1], "r+b")
fcntl.lockf(file, {"write": fcntl.LOCK_EX, "read": fcntl.LOCK_SH}[sys.argv[2]])
print("locked", flush=True)
sys.stdin.read()
"""


@contextmanager
def locked(path: Path, how: str = "write") -> Iterator[int]:
    """A process that has locked a file; its number."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path), how],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == "locked\n"
        yield process.pid
        process.communicate()


def in_namespace(path: Path, name: str) -> Path:
    """The file of a process that its namespace numbers otherwise."""
    made = path.with_name(f"{path.name}.{name}")
    made.write_bytes(bytes(a_process()))
    return made


def test_a_file_of_a_pid_namespace_is_of_who_locks_it(path: Path) -> None:
    mine = in_namespace(path, "4026532000-1")
    assert process_counts.read_counts(path) == ()
    with locked(mine) as pid:
        (found,) = process_counts.read_counts(path)
        assert (found.pid, found.path, found.job) == (pid, mine, "job")
    assert process_counts.read_counts(path) == ()


def test_two_namespaces_with_equal_numbers(path: Path) -> None:
    one, two = (in_namespace(path, f"{space}-1") for space in (4026532000, 4026532001))
    with locked(one) as first, locked(two) as second:
        assert {found.pid for found in process_counts.read_counts(path)} == {first, second}


def test_who_only_reads_a_file_is_not_its_process(path: Path) -> None:
    with locked(in_namespace(path, "4026532000-1"), "read"):
        assert process_counts.read_counts(path) == ()


def test_a_process_has_one_file(path: Path) -> None:
    own = path.with_name(f"{path.name}.{os.getpid()}")
    own.write_bytes(bytes(a_process()))
    for link in ("1-1", "1-2"):
        os.link(own, path.with_name(f"{path.name}.{link}"))
    with locked(own) as pid:
        assert [one for _, one in process_counts.files_of(path)] == [pid, os.getpid()]


@pytest.mark.parametrize("name", ["1-", "-1", "1-2-3", "1-x", "1_2", "x.1-1", "+1-1", "\u0661-1"])
def test_a_name_of_another_form_is_none(path: Path, name: str) -> None:
    with locked(in_namespace(path, name)):
        assert process_counts.files_of(path) == []


def test_a_crowd_of_files_hides_nobody_elses(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Absent: another user; whose files are is told instead."""
    monkeypatch.setattr(process_counts, "MAX_FILES_PER_USER", 3)
    crowd = {path.with_name(f"{path.name}.{number}") for number in range(10, 20)}
    other = path.with_name(f"{path.name}.{2**22 + 7}")
    for one in (*crowd, other):
        one.write_bytes(b"")

    def facts(self: Path) -> os.stat_result:
        return os.stat_result((0, 0, 0, 1, int(self in crowd), 0, 0, 0, 0, 0))

    monkeypatch.setattr(Path, "lstat", facts)
    listed = [pid for _, pid in process_counts.files_of(path)]
    assert listed == [10, 11, 12, 2**22 + 7]


def test_a_file_that_is_named_after_a_process_hides_not_its_own(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a process in a PID namespace.  Absent: another user; whose files are is told instead."""
    own = in_namespace(path, "4026532000-1")
    with locked(own) as pid:
        other = in_namespace(path, str(pid))

        def facts(self: Path) -> os.stat_result:
            return os.stat_result((0, 0, 0, 1, int(self == other), 0, 0, 0, 0, 0))

        monkeypatch.setattr(Path, "lstat", facts)
        assert set(process_counts.files_of(path)) == {(own, pid), (other, pid)}


def test_files_of_ended_namespaces_are_swept(path: Path) -> None:
    """Not of those that live, and not before a process can have locked what it has made."""
    used, left, fresh = (in_namespace(path, f"4026532000-{number}") for number in (1, 2, 3))
    for one in (used, left):
        os.utime(one, (0, 0))
    with locked(used):
        assert process_counts.sweep(path) == 1
    assert (used.exists(), left.exists(), fresh.exists()) == (True, False, True)


def test_addresses() -> None:
    assert process_counts.address_of(plan_region.gid_of("198.18.0.1")) == "198.18.0.1"
    assert process_counts.address_of(plan_region.gid_of("fd00::1")) == "fd00::1"
    assert process_counts.address_of(bytes(16)) == ""
