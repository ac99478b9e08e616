"""What is on disk, when, and what can be read back after a crash."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hostcc.daemon.changes import journal as journals
from hostcc.daemon.changes.journal import Journal, row_of
from hostcc.errors import HostccError
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
    shown = json.loads(msgspec.json.encode(row_of(journal.active["a"])))
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


class Disk:
    """Has the next writes fail: each fault is (kind, bytes that get there first)."""

    KINDS = ("none", "short", "ENOSPC", "EINTR", "nothing", "fsync")

    def __init__(self) -> None:
        self.faults: Iterator[tuple[str, int]] = iter(())
        self._write, self._fsync = os.write, os.fsync
        self._sync_fails = False

    @contextmanager
    def installed(self) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "write", self.write)
            patch.setattr(os, "fsync", self.fsync)
            yield

    def write(self, fd: int, raw: bytes | memoryview) -> int:
        kind, most = next(self.faults, ("none", 0))
        self._sync_fails = kind == "fsync"
        if kind in ("none", "fsync"):
            return self._write(fd, raw)
        if kind == "nothing":
            return 0
        if kind == "short":
            return self._write(fd, bytes(raw)[: most or 1])
        if kind == "ENOSPC":
            self._write(fd, bytes(raw)[:most])
        raise OSError(getattr(errno, kind), os.strerror(getattr(errno, kind)))

    def fsync(self, fd: int) -> None:
        if self._sync_fails:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        self._fsync(fd)


FAULTS = st.tuples(st.sampled_from(Disk.KINDS), st.integers(0, 200))
STEPS = st.tuples(
    st.sampled_from(["begin", "making", "fails", "undone", "note"]), st.integers(0, 5)
)


def take(journal: Journal, made: dict[str, str], step: tuple[str, int], value: str) -> None:
    """One step of an agent; `made` is what the host has."""
    kind, number = step
    one = change(f"c{number}", value)
    if kind == "undone":
        made.pop(one.id, None)
        journal.undone([one.id], "done")
    elif kind == "note":
        journal.note(one.id, value)
    elif kind == "fails":
        with suppress(HostccError, ValueError), journal.making(one):
            raise ValueError(value)
    else:
        with suppress(HostccError):
            if kind == "making":
                with journal.making(one):
                    made[one.id] = value
            else:
                journal.begin(one)
                made[one.id] = value


def on_disk(folder: Path) -> dict[str, str]:
    return {name: str(one.after) for name, one in Journal(folder).active.items()}


@example([(("begin", 0), []), (("fails", 0), [("none", 0), ("none", 0), ("ENOSPC", 0)])])
@given(st.lists(st.tuples(STEPS, st.lists(FAULTS, max_size=4)), max_size=25))
@settings(max_examples=150, deadline=None)
def test_whatever_a_disk_does_no_change_is_made_without_its_record(
    tmp_path_factory: pytest.TempPathFactory,
    play: list[tuple[tuple[str, int], list[tuple[str, int]]]],
) -> None:
    """Whenever the agent dies, all that it has made is on disk; once the disk works again
    the disk says exactly that."""
    folder, disk, made = tmp_path_factory.mktemp("journal"), Disk(), dict[str, str]()
    journal = opened(folder, max_bytes=3000)
    with disk.installed():
        for number, (step, faults) in enumerate(play):
            disk.faults = iter(faults)
            take(journal, made, step, f"v{number}")
            found = on_disk(folder)
            assert made.keys() <= found.keys()
            assert {name: one.after for name, one in journal.active.items()} == made
        disk.faults = iter(())
        journal.note("t", "the disk works again")
    assert on_disk(folder) == made
    journal.close("stopped")
    assert on_disk(folder) == made


def test_what_cannot_be_recorded_is_not_made(tmp_path: Path) -> None:
    journal, disk = opened(tmp_path), Disk()
    with disk.installed():
        disk.faults = iter([("short", 20), ("ENOSPC", 10)])
        with pytest.raises(HostccError, match="No space left"):
            journal.begin(change("a"))
    assert journal.active == {}
    assert (Journal(tmp_path).active, Journal(tmp_path).damaged) == ({}, 1)
    journal.begin(change("b"))
    assert (list(on_disk(tmp_path)), Journal(tmp_path).damaged) == (["b"], 0)


def test_what_is_undone_does_not_wait_for_a_disk(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Said once; until it is on disk the next agent would undo it once more."""
    journal, disk = opened(tmp_path), Disk()
    journal.begin(change("a"), change("b"))
    with disk.installed():
        disk.faults = iter([("ENOSPC", 0)] * 10)
        journal.undone(["a"], "rolled back")
        journal.undone(["b"], "rolled back")
    assert list(on_disk(tmp_path)) == ["a", "b"]
    assert len(caplog.records) == 1
    journal.close("stopped")
    assert on_disk(tmp_path) == {}


def fill(journal: Journal, names: list[str], size: int) -> None:
    for first in range(0, len(names), 500):
        journal.begin(*(change(name, "x" * size) for name in names[first : first + 500]))


@pytest.mark.parametrize("how", ["in force", "mostly undone"])
def test_no_journal_is_too_long_to_be_read(tmp_path: Path, how: str) -> None:
    """Ten megabytes, written by one agent."""
    journal = opened(tmp_path, 1 << (20 if how == "in force" else 30))
    names = [f"c{number}" for number in range(5000)]
    fill(journal, names, 2000)
    if how == "mostly undone":
        journal.undone(names[:-1], "done")
        names = names[-1:]
    journal.close()
    assert journal.path.stat().st_size > 10_000_000
    again = Journal(tmp_path)
    assert (list(again.active), again.damaged) == (names, 0)
    assert [row["id"] for row in again.tail(2)] == (
        names[-2:] if how == "in force" else ["c4997", "c4998"]
    )


def test_a_line_that_is_too_long(tmp_path: Path) -> None:
    """None is written; one that is there is damage, and the next is read."""
    journal = opened(tmp_path)
    with pytest.raises(HostccError, match=r"a record of \d+ bytes, expected at most"):
        journal.begin(change("a", "x" * journals.MAX_LINE_BYTES))
    journal.begin(change("b"))
    journal.close()
    with journal.path.open("ab") as file:
        file.write(b"x" * (3 * journals.MAX_LINE_BYTES) + b"\n")
    again = opened(tmp_path)
    again.begin(change("c"))
    assert (on_disk(tmp_path), again.damaged) == ({"b": "x", "c": "x"}, 1)


ERRNOS = (errno.ENOSPC, errno.EROFS, errno.EIO, errno.EMFILE)
CALLS = ("open", "write", "fsync", "link", "rename", "replace", "unlink")


@pytest.mark.parametrize("number", ERRNOS)
def test_whichever_call_fails_from_when_on_undoing_goes_on(tmp_path: Path, number: int) -> None:
    """Every call, from every one of its turns on: what is undone is, and what is not recorded
    is known."""

    def life(folder: Path, first: int) -> tuple[Journal, int]:
        calls = count(1)

        def failing(real: Callable[..., Any]) -> Callable[..., Any]:
            def call(*arguments: Any, **more: Any) -> Any:
                if next(calls) >= first:
                    raise OSError(number, os.strerror(number))
                return real(*arguments, **more)

            return call

        journal = opened(folder, max_bytes=1000)
        journal.begin(*(change(f"c{one}") for one in range(4)))
        with pytest.MonkeyPatch.context() as patch:
            for name in CALLS:
                patch.setattr(os, name, failing(getattr(os, name)))
            for one in range(3):
                journal.undone([f"c{one}"], "rolled back")
            journal.note("t", "n" * 500)
            journal.close("stopped")
        return journal, next(calls) - 1

    calls = life_calls = 1
    while calls <= life_calls:
        folder = tmp_path / str(calls)
        folder.mkdir()
        journal, made = life(folder, calls)
        life_calls = max(life_calls, made)
        assert list(journal.active) == ["c3"]
        assert journal.unrecorded.keys() >= on_disk(folder).keys() - {"c3"}
        assert all(os.strerror(number) in why for why in journal.unrecorded.values())
        calls += 1
    assert life_calls > 10


@pytest.mark.parametrize("full", ["write", "open"])
def test_who_only_undoes_needs_no_journal_to_write_to(tmp_path: Path, full: str) -> None:
    journal = opened(tmp_path)
    journal.begin(change("a"), change("b"))
    journal.close()
    journal.path.write_bytes(journal.path.read_bytes()[:-1])  # a torn line, to be ended first

    def fails(*_: object) -> int:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    real, again = os.open, Journal(tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "write", fails)
        if full == "open":
            patch.setattr(os, "open", lambda path, flags, *more: fails() if flags & os.O_CREAT
                          else real(path, flags, *more))  # fmt: skip
        with pytest.raises(HostccError, match="Read-only"):
            Journal(tmp_path).open()
        again.open(undoing=True)
        again.undone(["a"], "rolled back")
        again.close("rolled back")
    assert list(again.unrecorded) == ["a"]
    assert "Read-only file system" in again.unrecorded["a"]


def test_a_journal_that_somebody_took_away_is_begun_anew(tmp_path: Path) -> None:
    journal = opened(tmp_path, max_bytes=1000)
    journal.begin(change("a"))
    journal.path.unlink()
    for number in range(10):
        journal.begin(change(f"c{number}"))
    assert {"a", "c9"} <= on_disk(tmp_path).keys()


@pytest.fixture
def syncs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    found: list[int] = []
    sync = os.fsync

    def counted(fd: int) -> None:
        found.append(fd)
        sync(fd)

    monkeypatch.setattr("hostcc.daemon.changes.journal.os.fsync", counted)
    return found


def test_what_is_begun_together_is_not_written_again(tmp_path: Path, syncs: list[int]) -> None:
    journal = opened(tmp_path)
    del syncs[:]
    journal.begin(change("a"), change("b"), change("c"))
    for name in "abc":
        journal.begin(change(name))
    assert len(syncs) == 1
    journal.begin(change("b", "other"))
    assert len(syncs) == 2
    journal.undone(["a"], "gone")
    journal.begin(change("a"))
    assert len(syncs) == 4
    assert {name: one.after for name, one in Journal(tmp_path).active.items()} == {
        "c": "x", "b": "other", "a": "x",
    }  # fmt: skip


def test_what_is_undone_is_gathered_and_never_after_a_later_change(
    tmp_path: Path, syncs: list[int]
) -> None:
    journal = opened(tmp_path)
    journal.begin(*(change(name) for name in "abcd"))
    del syncs[:]
    with journal.gathering():
        journal.undone(["a"], "gone")
        with journal.gathering():
            journal.undone(["b"], "gone")
        assert (len(syncs), list(journal.active)) == (0, ["c", "d"])
        assert list(Journal(tmp_path).active) == ["a", "b", "c", "d"]
        journal.begin(change("a"))
        assert (len(syncs), list(Journal(tmp_path).active)) == (1, ["c", "d", "a"])
        journal.undone(["c"], "gone")
        journal.note("d", "odd")
    assert len(syncs) == 2
    assert list(Journal(tmp_path).active) == ["d", "a"]


def test_a_change_that_cannot_be_written_leaves_what_was_gathered(tmp_path: Path) -> None:
    journal = opened(tmp_path)
    journal.begin(change("a"), change("b"))
    with journal.gathering():
        journal.undone(["a"], "gone")
        with pytest.raises(HostccError, match="a record of"):
            journal.begin(change("c", "x" * (2 << 20)))
    assert list(Journal(tmp_path).active) == ["b"]
