"""How long a stop waits for groups whose processes are exiting."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hostcc.daemon.changes.journal import Journal
from hostcc.daemon.jobs import exiting
from hostcc.daemon.jobs.exiting import wait
from hostcc.daemon.jobs.group_removal import GroupRemoval
from hostcc.model import Change
from hostcc.system.cgroups import CgroupTree

GROUPS = [Path("/a"), Path("/b")]


class Tree(CgroupTree):
    """Groups that end one after the other, by a clock."""

    def __init__(self, ends: dict[Path, float]) -> None:
        super().__init__(Path("/none"))
        self.ends, self.now = ends, 0.0

    def ending(self, path: Path) -> bool:
        return self.now < self.ends[path]

    def remove(self, path: Path) -> bool:
        return not self.ending(path)

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def waited(tree: Tree, sockets: Iterator[int]) -> list[Path]:
    return wait(tree, GROUPS, lambda: tree.now, tree.sleep, lambda: next(sockets))


def same() -> Iterator[int]:
    while True:
        yield 7


def falling() -> Iterator[int]:
    yield from range(10**9, 0, -1)


def test_until_all_have_ended() -> None:
    tree = Tree({GROUPS[0]: 3.0, GROUPS[1]: 11.0})  # the first one is progress
    assert waited(tree, same()) == []
    assert tree.now == pytest.approx(11.0, abs=0.1)


def test_what_makes_no_progress_is_given_up() -> None:
    tree = Tree({GROUPS[0]: 3.0, GROUPS[1]: 1e9})
    assert waited(tree, same()) == GROUPS[1:]
    assert tree.now == pytest.approx(3.0 + exiting.MAX_WAIT_WITHOUT_PROGRESS_S, abs=0.1)


def test_fewer_sockets_are_progress_but_nothing_is_waited_for_without_end() -> None:
    tree = Tree({GROUPS[0]: 0.0, GROUPS[1]: 1e9})
    assert waited(tree, falling()) == GROUPS[1:]
    assert tree.now == pytest.approx(exiting.MAX_WAIT_S, abs=0.1)


def test_what_remains_is_said_and_the_rest_is_no_longer_in_force(tmp_path: Path) -> None:
    tree, journal = Tree({GROUPS[0]: 0.0, GROUPS[1]: 1e9}), Journal(tmp_path)
    journal.open()
    for name in ("a", "b"):
        journal.begin(Change(name, "test", "t", None, None, "because", "undo it"))
    late = GroupRemoval(tree, journal)
    late.ending = {GROUPS[0]: ["a"], GROUPS[1]: ["b"]}
    assert late.finish("stopped") == ["/b: processes that cannot be moved are still in it"]
    assert (list(journal.active), late.ending) == (["b"], {})
