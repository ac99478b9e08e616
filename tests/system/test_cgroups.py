"""Finding cgroup v2, and moving real processes in and out of it."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hostcc.daemon.jobs import exiting
from hostcc.errors import HostccError
from hostcc.system import cgroups
from hostcc.system.cgroups import CgroupTree, find_mount, origin_of, resolve_root

MOUNTINFO = """\
21 1 0:20 / /sys/fs/cgroup rw - tmpfs tmpfs rw
22 21 0:21 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
{extra}
"""


def mounts(folder: Path, *lines: str) -> Path:
    path = folder / "mountinfo"
    path.write_text(MOUNTINFO.format(extra="\n".join(lines)))
    return path


def test_the_mount_is_looked_up(tmp_path: Path) -> None:
    assert find_mount(mounts(tmp_path)) is None
    hybrid = "23 21 0:22 / /sys/fs/cgroup/unified rw shared:1 - cgroup2 cgroup2 rw"
    assert find_mount(mounts(tmp_path, hybrid)) == Path("/sys/fs/cgroup/unified")
    part = "24 1 0:22 /user.slice /mnt/a\\040b rw - cgroup2 none rw"
    assert find_mount(mounts(tmp_path, part)) == Path("/mnt/a b")
    assert find_mount(mounts(tmp_path, part, hybrid)) == Path("/sys/fs/cgroup/unified")


def test_a_root_that_is_not_v2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(HostccError, match="expected a cgroup v2 directory"):
        resolve_root(str(tmp_path))
    monkeypatch.setattr(cgroups, "find_mount", lambda: None)
    with pytest.raises(HostccError, match="no cgroup v2 is mounted; "):
        resolve_root("auto")


def test_where_a_process_came_from() -> None:
    parent = os.getpid()
    with subprocess.Popen(["sleep", "60"]) as child:
        try:
            assert origin_of(child.pid, {}) == ""
            assert origin_of(child.pid, {child.pid: "/a", parent: "/b"}) == "/a"
            assert origin_of(child.pid, {parent: "/b", 999_999_999: "/c"}) == "/b"
            assert origin_of(child.pid, {999_999_998: "/b", 999_999_999: "/c"}) == "/c"
        finally:
            child.kill()


def test_a_tree_that_is_not_there(tmp_path: Path) -> None:
    tree = CgroupTree(tmp_path / "none")
    assert tree.children() == []
    assert tree.pids(tree.base) == []
    assert tree.ids(tree.base) == []
    assert not tree.populated(tree.base)
    assert tree.identity(tree.base) == 0
    assert tree.remove(tree.base)
    assert not tree.enter(tree.base, os.getpid())
    assert not tree.enter(tree.base, 0)


# Makes a child when it is told so: at a moment of its own it would escape who moves it.
PARENT = """
import subprocess
input()
child = subprocess.Popen(["sleep", "600"])
print(child.pid, flush=True)
child.wait()
"""


def begotten(parent: subprocess.Popen[str]) -> int:
    """The child that it makes now."""
    assert parent.stdin is not None
    assert parent.stdout is not None
    parent.stdin.write("\n")
    parent.stdin.flush()
    return int(parent.stdout.readline())


@pytest.mark.kernel
def test_a_real_tree(cgroup: Path) -> None:
    tree = CgroupTree(resolve_root(str(cgroup)))
    group = tree.path("job")
    tree.create(tree.base)
    tree.create(group)
    tree.create(group)
    (group / "nested").mkdir()
    assert tree.children() == [group]
    assert len(set(tree.ids(group))) == 2
    home = tree.home_of(os.getpid())
    assert Path(home).is_dir()
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        start_new_session=True,
    ) as parent:  # fmt: skip
        try:
            assert tree.enter(group, parent.pid)
            assert tree.enter(group / "nested", parent.pid)
            assert tree.populated(group)
            child = begotten(parent)
            assert sorted(tree.pids(group)) == sorted([parent.pid, child])
            assert not tree.remove(group)
            assert tree.home_of(parent.pid) == str(group / "nested")
            assert tree.move_out(group, {parent.pid: home}) == []
            assert tree.home_of(parent.pid) == tree.home_of(child) == home
            assert not tree.populated(group)
            assert tree.enter(group, parent.pid)
            assert tree.move_out(group, {parent.pid: str(cgroup / "gone")}) == []
            assert tree.home_of(parent.pid) == str(cgroup)
        finally:
            tree.move_out(cgroup, {parent.pid: home})
            os.killpg(parent.pid, signal.SIGKILL)
    assert tree.remove(tree.base)
    assert not tree.base.exists()


@pytest.mark.kernel
def test_without_a_descriptor_nothing_is_taken_for_empty(cgroup: Path) -> None:
    tree = CgroupTree(cgroup)
    group = tree.path("train")
    tree.create(tree.base)
    tree.create(group)
    with subprocess.Popen(["sleep", "60"]) as sleeper:
        assert tree.enter(group, sleeper.pid)
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        lowest = os.dup(0)
        os.close(lowest)
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, limits[1]))
        try:
            for look in (tree.populated, tree.pids, tree.ids, tree.remove):
                with pytest.raises(OSError, match="Too many open files"):
                    look(group)
            with pytest.raises(OSError, match="Too many open files"):
                tree.children()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
            sleeper.kill()
    assert tree.remove(tree.base)


# Ends slowly when it is killed: it closes thousands of sockets.
SLOW = """
import resource, socket, time
resource.setrlimit(resource.RLIMIT_NOFILE, (9000, 9000))
server = socket.create_server(("127.0.0.1", 0), backlog=128)
held = []
for _ in range(4000):
    held += [socket.create_connection(server.getsockname()), server.accept()[0]]
print("up", flush=True)
time.sleep(1000)
"""


@pytest.mark.kernel
def test_processes_that_are_killed_are_waited_for_others_are_not(cgroup: Path) -> None:
    tree = CgroupTree(cgroup)
    tree.create(tree.base)
    groups = [tree.path(name) for name in ("killed", "lives")]
    slow = [sys.executable, "-c", SLOW]
    jobs = [subprocess.Popen(words, stdout=subprocess.PIPE) for words in (slow, ["sleep", "1000"])]
    try:
        for group, job in zip(groups, jobs, strict=True):
            tree.create(group)
            assert tree.enter(group, job.pid)
            assert list(tree.living([job.pid])) == [job.pid]
        assert jobs[0].stdout is not None
        assert jobs[0].stdout.readline() == b"up\n"
        assert exiting.wait(tree, groups) == []
        jobs[0].kill()
        assert tree.living([jobs[0].pid]) == {}
        assert exiting.wait(tree, groups) == []
        assert tree.remove(groups[0])
        assert tree.pids(groups[1]) == [jobs[1].pid]
    finally:
        for job in jobs:
            job.kill()
            job.communicate()
    assert exiting.wait(tree, groups) == []
    assert tree.remove(tree.base)
