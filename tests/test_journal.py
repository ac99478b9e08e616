"""What is on disk, when, and what can be read back after a crash."""

from __future__ import annotations

import json
import os
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hostcc import journal as journals
from hostcc.errors import HostccError
from hostcc.journal import Journal, change_json
from hostcc.model import Change


def change(name: str, after: str = "x") -> Change:
    return Change(
        id=name, what="test", target="t", before=None, after=after, why="because", undo="undo it"
    )


def opened(folder: Path, max_bytes: int = 1 << 20) -> Journal:
    ticks = count(1)
    journal = Journal(folder, lambda: float(next(ticks)), max_bytes)
    journal.open("1.0")
    return journal


def test_a_change_is_on_disk_before_it_is_made(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    with journal.making(change("a")):
        assert "a" in Journal(tmp_path).active
    journal.close()
    again = Journal(tmp_path)
    assert list(again.active) == ["a"]
    assert again.active["a"].at > 0
    assert again.last_pid == os.getpid()


def test_a_change_that_failed_is_not_in_force(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    journal.begin(change("a", "old"))
    with pytest.raises(ValueError, match="no"), journal.making(change("a", "new"), change("b")):
        raise ValueError("no")
    journal.close()
    assert {k: c.after for k, c in Journal(tmp_path).active.items()} == {"a": "old"}


def test_undone_and_stop(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    journal.begin(change("a"), change("b"))
    journal.undone(["a", "never"], "rolled back")
    journal.note("b", "somebody edited it")
    journal.close("restored")
    again = Journal(tmp_path)
    assert list(again.active) == ["b"]
    assert [note.text for note in again.notes] == ["somebody edited it"]
    records = [line["record"] for line in again.tail(100)]
    assert records == ["start", "change", "change", "undone", "note", "stop"]
    assert again.tail(1)[0]["how"] == "restored"


def test_shape_on_disk_and_on_screen(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    journal.begin(change("a"))
    journal.close()
    line = json.loads(journal.path.read_text().splitlines()[1])
    shown = change_json(journal.active["a"])
    assert {**shown, "record": "change"} == line
    assert (shown["from"], shown["to"]) == (None, "x")


def test_nothing_survives_a_boot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = opened(tmp_path)
    journal.begin(change("a"))
    journal.close()
    monkeypatch.setattr(journals, "boot_id", lambda: "another")
    again = opened(tmp_path)
    assert again.active == {}
    again.begin(change("b"))
    again.close()
    assert list(Journal(tmp_path).active) == ["b"]


def test_a_torn_last_line_is_not_a_change_and_does_not_harm_the_next(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    journal.begin(change("a"), change("b"))
    journal.close()
    journal.path.write_bytes(journal.path.read_bytes()[:-10])
    again = opened(tmp_path)
    assert (list(again.active), again.damaged) == (["a"], 1)
    again.begin(change("c"))
    again.close()
    assert list(Journal(tmp_path).active) == ["a", "c"]


def test_size_is_bounded_and_what_is_in_force_is_kept(tmp_path: Path) -> None:
    journal = opened(tmp_path, max_bytes=4000)
    journal.begin(change("keep"))
    for number in range(200):
        journal.begin(change(f"c{number}"))
        journal.undone([f"c{number}"], "done")
    journal.close()
    assert journal.path.stat().st_size <= 4000
    assert {p.name for p in tmp_path.iterdir()} == {"journal.jsonl", "journal.old.jsonl"}
    assert list(Journal(tmp_path).active) == ["keep"]


def test_more_in_force_than_the_bound(tmp_path: Path) -> None:
    journal = opened(tmp_path, max_bytes=1000)
    for number in range(100):
        journal.begin(change(f"c{number}"))
    journal.close()
    assert len(Journal(tmp_path).active) == 100


def test_a_journal_that_others_can_write_is_not_believed(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    journal.close()
    assert journal.path.stat().st_mode & 0o777 == 0o600
    journal.path.chmod(0o666)
    with pytest.raises(HostccError, match="somebody else could have written it"):
        Journal(tmp_path)


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").touch(0o600)
    (tmp_path / "journal.jsonl").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(HostccError, match="symbolic link"):
        opened(tmp_path)


def test_without_a_journal(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    assert (journal.active, journal.tail(5), journal.last_pid) == ({}, [], 0)
    journal.note("a", "an observer writes nothing")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(HostccError, match="No such file"):
        Journal(tmp_path / "none").open()


@given(st.binary(max_size=300))
@settings(max_examples=60)
def test_any_bytes_can_be_read(tmp_path_factory: pytest.TempPathFactory, raw: bytes) -> None:
    folder = tmp_path_factory.mktemp("journal")
    path = folder / "journal.jsonl"
    path.write_bytes(raw)
    path.chmod(0o600)
    journal = opened(folder)
    journal.begin(change("a"))
    journal.close()
    assert list(Journal(folder).active) == ["a"]
