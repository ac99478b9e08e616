"""Tests of hostcc.cgroup_events."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from hostcc.cgroup_events import GroupEvents
from hostcc.cgroups import CgroupTree
from tests.real import until


def test_what_cannot_be_watched_is_told_each_time(tmp_path: Path) -> None:
    events = GroupEvents()
    gone = tmp_path / "gone"
    assert events.stirred({gone: 1}) == {gone}
    assert events.stirred({gone: 1}) == {gone}
    assert events.stirred({}) == set()


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


def told(events: GroupEvents, groups: dict[Path, int], count: int) -> set[Path]:
    """What the kernel tells until it has told of so many; it leaves 10 ms between two events."""
    seen: set[Path] = set()

    def all_told() -> bool:
        seen.update(events.stirred(groups))
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
    groups = {group: number(group), below: number(below)}
    assert told(events, groups, 2) == {group, below}
    assert events.stirred(groups) == set()
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as member:
        (below / "cgroup.procs").write_text(str(member.pid))
        assert told(events, groups, 2) == {group, below}
        (group / "cgroup.procs").write_text(str(member.pid))
        assert told(events, groups, 1) == {below}
        assert events.stirred(groups) == set()
    assert told(events, groups, 1) == {group}
    assert events.stirred(groups) == set()


@pytest.mark.kernel
def test_a_group_that_is_gone_or_another_one(group: Path) -> None:
    events = GroupEvents()
    before = {group: number(group)}
    events.stirred(before)
    group.rmdir()
    assert events.stirred(before) == {group}
    group.mkdir()
    assert events.stirred(before) == {group}
    after = {group: number(group)}
    assert after != before
    assert events.stirred(after) == {group}
    assert events.stirred(after) == set()


@pytest.mark.kernel
def test_descriptors_are_let_go(group: Path) -> None:
    events = GroupEvents()
    held = open_files()
    groups = {group: number(group)}
    for _ in range(3):
        events.stirred(groups)
    assert open_files() == held + 1
    events.stirred({})
    assert open_files() == held
    events.stirred(groups)
    events.close()
    assert open_files() == held
