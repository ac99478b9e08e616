"""Tests of hostcc.system.cgroup_events."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from hostcc.system.cgroup_events import GroupEvents
from hostcc.system.cgroups import CgroupTree
from tests.real import until


def test_what_cannot_be_watched_is_told_each_time(tmp_path: Path) -> None:
    events = GroupEvents()
    gone = tmp_path / "gone"
    events.watch({gone: 1})
    assert events.stirred() == {gone}
    assert events.stirred() == {gone}
    events.watch({})
    assert events.stirred() == set()


@pytest.fixture
def group(cgroup: Path) -> Iterator[Path]:
    tree = CgroupTree(cgroup)
    path = tree.path("job")
    tree.create(tree.base)
    tree.create(path)
    yield path
    assert tree.remove(tree.base)


def number(path: Path) -> int:
    return path.stat().st_ino


def told(events: GroupEvents, count: int) -> set[Path]:
    """What the kernel tells until it has told of so many; it leaves 10 ms between two events."""
    seen: set[Path] = set()

    def all_told() -> bool:
        seen.update(events.stirred())
        return len(seen) >= count

    until(all_told, "events of groups")
    return seen


def open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


@pytest.mark.kernel
def test_told_once_of_processes_that_come_and_go(group: Path) -> None:
    events = GroupEvents()
    below = group / "below"
    below.mkdir()
    events.watch({group: number(group), below: number(below)})
    assert told(events, 2) == {group, below}
    assert events.stirred() == set()
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as member:
        (below / "cgroup.procs").write_text(str(member.pid))
        assert told(events, 2) == {group, below}
        (group / "cgroup.procs").write_text(str(member.pid))
        assert told(events, 1) == {below}
        assert events.stirred() == set()
    assert told(events, 1) == {group}
    assert events.stirred() == set()


@pytest.mark.kernel
def test_a_group_that_is_gone_or_another_one(group: Path) -> None:
    events = GroupEvents()
    before = {group: number(group)}
    events.watch(before)
    events.stirred()
    group.rmdir()
    assert events.stirred() == {group}
    group.mkdir()
    assert events.stirred() == {group}
    after = {group: number(group)}
    assert after != before
    events.watch(after)
    assert events.stirred() == {group}
    assert events.stirred() == set()


@pytest.mark.kernel
def test_descriptors_are_let_go(group: Path) -> None:
    events = GroupEvents()
    held = open_files()
    groups = {group: number(group)}
    for _ in range(3):
        events.watch(groups)
        events.stirred()
    assert open_files() == held + 1
    events.watch({})
    assert open_files() == held
    events.watch(groups)
    events.stirred()
    events.close()
    assert open_files() == held
