"""Which processes come back to a job, and what of a journal is believed about it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hostcc.config.sections.job import JobRequest
from hostcc.daemon.changes import kinds
from hostcc.daemon.jobs import released
from hostcc.model import Change
from hostcc.system.procfs import Stat
from tests.fakes import FakeTree

pytestmark = pytest.mark.unit

HOME = "/user.slice/x"
ASKED: dict[str, Any] = {"weight": 2.0, "bytes_per_iteration": 5}


def process(started: int, parent: int = 1) -> Stat:
    return Stat("python", parent, started)


@pytest.fixture
def tree(tmp_path: Path) -> FakeTree:
    made = FakeTree(tmp_path)
    (tmp_path / "hostcc" / "a").mkdir(parents=True)
    return made


def let_go(tree: FakeTree, processes: dict[int, Stat], most: int = 9) -> Change:
    """The change that an agent leaves; the processes are home again."""
    group = tree.path("a")
    tree.stats.update(processes)
    tree.homes.update(dict.fromkeys(processes, HOME))
    fields = released.process_fields(tree.identity(group), processes, most)
    return kinds.job_group("a", group, {**ASKED, **fields}, "stopped")


def back(change: Change | None, tree: FakeTree) -> dict[int, str]:
    """Process -> where it comes from."""
    found = released.returning(change, tree.path("a"), tree, tree.processes)
    assert all(one.id == f"job-member:a:{one.target}" for one in found)
    return {int(one.target): str(one.before) for one in found}


def test_processes_come_back_with_what_was_asked_for(tree: FakeTree) -> None:
    change = let_go(tree, {50: process(700), 51: process(720, 50)})
    assert back(change, tree) == {50: HOME, 51: HOME}
    assert released.job_of(change).wishes == JobRequest(2.0, 5)


def test_a_process_that_has_its_number_from_a_dead_one_does_not(tree: FakeTree) -> None:
    change = let_go(tree, {50: process(700), 51: process(720)})
    tree.stats[50] = process(900)
    tree.stats[60] = process(901, 50)
    del tree.stats[51]
    assert back(change, tree) == {}


def test_children_that_were_born_since_come_too(tree: FakeTree) -> None:
    change = let_go(tree, {50: process(700), 51: process(720, 50)})
    tree.stats |= {
        60: process(900, 51),
        61: process(901, 60),
        62: process(902, 50),  # is elsewhere
        63: process(903, 62),
        64: process(710, 50),  # was not in the job before either
        65: process(904, 1),
    }
    tree.homes |= dict.fromkeys((60, 61, 64, 65), HOME) | dict.fromkeys((62, 63), "/other")
    assert sorted(back(change, tree)) == [50, 51, 60, 61]


def test_who_was_not_sent_home_stays(tree: FakeTree) -> None:
    change = let_go(tree, {50: process(700), 51: process(701), 52: process(702)})
    tree.homes |= {50: str(tree.path("a")), 51: str(tree.path("a") / "below")}
    assert back(change, tree) == {52: HOME}


def test_as_many_as_are_kept_are_read_again(tree: FakeTree) -> None:
    many = {pid: process(10**6) for pid in range(10**6, 10**6 + released.MAX_KEPT_PROCESSES)}
    assert back(let_go(tree, many, released.MAX_KEPT_PROCESSES), tree).keys() == many.keys()


def test_the_eldest_of_too_many_are_kept(tree: FakeTree) -> None:
    change = let_go(tree, {pid: process(1000 - pid) for pid in range(50, 60)}, most=3)
    assert sorted(back(change, tree)) == [57, 58, 59]


def test_another_group_of_that_name_is_not_the_jobs(tree: FakeTree) -> None:
    change = let_go(tree, {50: process(700)})
    before = tree.path("a").stat().st_ino
    tree.path("a").rmdir()
    tree.path("a").mkdir()
    if tree.path("a").stat().st_ino == before:  # the number is used again: it stays in use
        tree.path("a").rename(tree.root / "hold")
        tree.path("a").mkdir()
    assert back(change, tree) == {}
    tree.path("a").rmdir()
    assert back(change, tree) == {}


@pytest.mark.parametrize(
    "wrong",
    [
        {"processes": "50"},
        {"processes": "50/700 x"},
        {"processes": "-50/700"},
        {"processes": "50/700\n"},
        {"processes": "99999999999/1"},
        {"processes": [50, 700]},
        {"cgroup_id": "7"},
        {"weight": -1},
        {"weight": True},
        {"bytes_per_iteration": 1.5},
        {"flops": "many"},
    ],
)
def test_what_no_agent_writes_is_nothing(tree: FakeTree, wrong: dict[str, Any]) -> None:
    change = let_go(tree, {50: process(700)})
    assert isinstance(change.after, dict)
    odd = replace(change, after={**change.after, **wrong})
    assert released.job_of(odd) == released.KeptJob()
    assert back(odd, tree) == {}


@pytest.mark.parametrize("after", [None, "absent", 7, {"job": "a"}])
def test_a_job_that_nobody_let_go_of_has_nothing_to_come_back(tree: FakeTree, after: Any) -> None:
    change = let_go(tree, {50: process(700)})
    assert back(replace(change, after=after), tree) == {}
    assert back(None, tree) == {}
