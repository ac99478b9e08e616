"""What is in force is also kept at a directory of cgroups."""

from __future__ import annotations

from pathlib import Path

import pytest

from hostcc.daemon.changes import attribute_copy
from hostcc.daemon.changes.attribute_copy import MAX_ATTRIBUTE_BYTES, AttributeCopy, everywhere
from hostcc.daemon.changes.journal import Journal, recorded
from hostcc.model import Change

pytestmark = pytest.mark.kernel


def change(name: str, after: str = "x") -> Change:
    return Change(
        id=name, what="test", target="t", before=None, after=after, why="because", undo="undo it"
    )


def kept(base: Path) -> dict[str, str]:
    return {one.id: str(one.after) for one in recorded(AttributeCopy(base))}


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    made = Journal(tmp_path)
    made.open()
    return made


def test_it_follows_the_journal(journal: Journal, cgroup: Path) -> None:
    journal.begin(change("a"), change("b/1"))
    AttributeCopy(cgroup).put("stale", b"{}")
    journal.copy_to(AttributeCopy(cgroup))
    assert kept(cgroup) == {"a": "x", "b/1": "x"}
    assert len(AttributeCopy(cgroup).records()) == 2
    assert AttributeCopy(cgroup).owner == (
        str(journal.path.parent),
        Path("/proc/self/ns/net").stat().st_ino,
    )
    journal.begin(change("a", "y"), change("c"))
    journal.undone(["b/1"], "done")
    assert kept(cgroup) == {"a": "y", "c": "x"}
    with pytest.raises(ValueError, match="no"), journal.making(change("a", "z"), change("d")):
        raise ValueError("no")
    assert kept(cgroup) == {"a": "y", "c": "x"}


def test_what_is_too_long_leaves_nothing_old_behind(journal: Journal, cgroup: Path) -> None:
    journal.copy_to(AttributeCopy(cgroup))
    journal.begin(change("a"), change("b"))
    journal.begin(change("a", "x" * MAX_ATTRIBUTE_BYTES))
    assert kept(cgroup) == {"b": "x"}
    journal.undone(["a", "b"], "done")
    assert kept(cgroup) == {}


def test_a_directory_that_is_gone_stands_in_no_ones_way(journal: Journal, cgroup: Path) -> None:
    journal.copy_to(AttributeCopy(cgroup / "none"))
    journal.begin(change("a"))
    journal.undone(["a"], "done")
    assert (kept(cgroup / "none"), AttributeCopy(cgroup / "none").owner) == ({}, ("", 0))


def test_what_nobody_recorded_is_adopted_once(journal: Journal, cgroup: Path) -> None:
    journal.copy_to(AttributeCopy(cgroup))
    journal.begin(change("a"), change("b"))
    journal.close()
    journal.path.unlink()
    again = Journal(journal.path.parent)
    again.open()
    assert again.active == {}
    assert [one.id for one in again.adopt(recorded(AttributeCopy(cgroup)))] == ["a", "b"]
    assert again.adopt(recorded(AttributeCopy(cgroup))) == []
    assert list(Journal(journal.path.parent).active) == ["a", "b"]


def test_agents_are_found_wherever_they_are(
    journal: Journal, cgroup: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bases = [cgroup / "x" / "y" / "hostcc", cgroup / "hostcc", cgroup / "x" / "hostcc"]
    for base in bases:
        base.mkdir(parents=True)
    for base in bases[:2]:
        journal.copy_to(AttributeCopy(base))
    try:
        assert {one.base for one in everywhere(cgroup)} == set(bases[:2])
        monkeypatch.setattr(attribute_copy, "MAX_CGROUPS", 1)
        assert [one.base for one in everywhere(cgroup)] == [cgroup / "hostcc"]
    finally:
        for group in (*bases, cgroup / "x" / "y", cgroup / "x"):
            group.rmdir()
