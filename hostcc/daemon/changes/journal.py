"""Every change of this host, on disk before it is made.

JSON lines in `journal.jsonl`: starts, changes, their undoing, notes.  A change is in
force until an `undone` with its id follows, so what an agent left behind can be read
after any crash; a torn last line is an edit that was not made.  When the file has
grown past its bound, what is in force moves to a fresh one and one old file is kept.

A change that cannot be recorded is not made.  An undoing that cannot be recorded is: the
file then says too much, which is said in the log and mended as soon as it can be written.
To make records durable takes milliseconds, so whoever has several gives them together.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from hostcc.answers.host import ChangeRow
from hostcc.daemon.changes import places
from hostcc.daemon.changes.attribute_copy import AttributeCopy
from hostcc.errors import HostccError
from hostcc.foreign import encoded, in_json
from hostcc.log import get_logger
from hostcc.model import Change, Note
from hostcc.system.validate import UNDECODABLE

log = get_logger("journal")

MAX_FILE_BYTES = 1 << 20
"""Size at which a fresh file is begun, unless the changes in force alone take half of it."""
MAX_LINE_BYTES = 1 << 20
"""Longest record, as written; a longer line is read as damage."""
MAX_NOTES = 100
MAX_CHANGES_NAMED = 8
"""Changes that one line names."""
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class _Record(msgspec.Struct, tag_field="record", kw_only=True):
    at: float


class StartRecord(_Record, tag="start", kw_only=True):
    """An agent (or a roll-back) begins to write."""

    pid: int
    boot: str
    version: str = ""


class StopRecord(_Record, tag="stop", kw_only=True):
    """It ended in good order."""

    how: str


class ChangeRecord(ChangeRow, frozen=True, tag_field="record", tag="change", kw_only=True):
    """A change is about to be made."""


class UndoneRecord(_Record, tag="undone", kw_only=True):
    """A change is no longer in force."""

    id: str
    how: str


class NoteRecord(_Record, tag="note", kw_only=True):
    """Something was seen and left alone."""

    target: str
    text: str


Record = StartRecord | StopRecord | ChangeRecord | UndoneRecord | NoteRecord
_DECODER: msgspec.json.Decoder[Record] = msgspec.json.Decoder(Record)


class Journal:
    """The journal in one folder, open for writing by one process (who holds the lock)."""

    def __init__(
        self,
        folder: Path,
        clock: Callable[[], float] = time.time,
        max_bytes: int = MAX_FILE_BYTES,
    ) -> None:
        self.path = folder / "journal.jsonl"
        self._clock = clock
        self._max_bytes = max_bytes
        self.active: dict[str, Change] = {}
        """Changes in force, by id, in the order in which they were made."""
        self.aside: dict[str, Change] = {}
        """Changes in force where nobody has reached them yet, by ids of their own."""
        self._place = places.current()
        self.notes: list[Note] = []
        """The latest notes, oldest first."""
        self.damaged = 0
        """Lines that could not be read."""
        self.last_pid = 0
        """The process that wrote last; 0 when none did since this boot."""
        self.unrecorded: dict[str, str] = {}
        """Changes that are undone although the file still has them, and why it has."""
        self._copy: AttributeCopy | None = None
        self._boot = boot_id()  # now: later there may be no descriptor left to read it
        self._size = 0
        self._fd = -1
        self._open_error = ""
        """Why the file could not be opened; empty when it is open, or was not asked for."""
        self._outdated = False
        """Whether a record could not be written, so that the file does not say what is in force."""
        self._batch: list[Any] | None = None
        """Records that wait for `gathering` to end."""
        self._load()

    def open(self, version: str = "", *, undoing: bool = False) -> None:
        """Begin to write.  Raises HostccError, but not to who only undoes (see `unrecorded`)."""
        try:
            self._open(version)
        except HostccError as error:
            if not undoing:
                raise
            self._open_error, self._outdated = str(error), True

    def _open(self, version: str) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            self._fd = os.open(self.path, flags, 0o600)
            self._size = os.fstat(self._fd).st_size
            if self._size and os.pread(self._fd, 1, self._size - 1) != b"\n":
                _append(self._fd, b"\n")  # a torn line must not swallow the next one
                self._size += 1
        except OSError as error:
            raise HostccError(f"journal {self.path}: {error.strerror}") from None
        self._write(
            [StartRecord(at=self._clock(), pid=os.getpid(), boot=self._boot, version=version)]
        )

    def copy_to(self, where: AttributeCopy) -> None:
        """Copy the changes in force to cgroup attributes, now and whenever they change."""
        raw = {one.id: msgspec.json.encode(_record_of(one)) for one in self.in_force()}
        where.begin(self.path.parent, raw)
        self._copy = where

    def adopt(self, found: Iterable[Change]) -> list[Change]:
        """Add changes that were found in force; returns those that are new.  Never waits for the
        disk."""
        new = [one for one in found if one.id not in self.active and one.id not in self.aside]
        if new:
            new = [one if one.at else self._stamped(one) for one in new]
            self._remember_changes(new)
            self._try_write([_record_of(one) for one in new])
        return new

    def close(self, how: str = "") -> None:
        """Stop writing; `how`: what the last record says, empty for none."""
        if self._fd >= 0:
            if how:
                self._try_write([StopRecord(at=self._clock(), how=how)])
            with suppress(OSError):  # of a disk that fails: all is said
                os.close(self._fd)
            self._fd = -1

    def begin(self, *changes: Change, undoing: bool = False) -> None:
        """Put changes on disk.  After this returns they may be made.

        Those that are there already, word for word, are not written again: so those of several
        edits can be begun together, and each once more before it is made.
        Raises HostccError, but not of changes that only undo others.
        """
        fresh = changes if self._outdated else [one for one in changes if not self._has(one)]
        stamped = [self._stamped(change) for change in fresh]
        (self._try_write if undoing else self._write)([_record_of(change) for change in stamped])
        self._remember_changes(stamped)

    @contextmanager
    def making(self, *changes: Change) -> Iterator[None]:
        """Put changes on disk and make them in the body; if it raises they count as undone."""
        earlier = {c.id: self.active[c.id] for c in changes if c.id in self.active}
        self.begin(*changes)
        try:
            yield
        except BaseException as error:
            # What was in force before is so again, without a moment in which the file says neither.
            self._remember_changes(earlier.values())
            self._try_write([_record_of(change) for change in earlier.values()])
            self.undone((c.id for c in changes if c.id not in earlier), f"failed: {error}")
            raise

    def undone(self, ids: Iterable[str], how: str) -> None:
        """Changes are no longer in force; unknown ids are nothing."""
        gone = [one for one in ids if self.active.pop(one, None) or self.aside.pop(one, None)]
        if gone:
            at = self._clock()
            if self._copy is not None:
                for change_id in gone:
                    self._copy.drop(change_id)
            if why := self._try_write([UndoneRecord(at=at, id=one, how=how) for one in gone]):
                self.unrecorded |= dict.fromkeys(gone, why)

    def set_aside(self, change: Change) -> None:
        """Keep a change that cannot be reached from here under an id of its own."""
        place = change.place or self._place
        self._rename(replace(change, place=place), change.id, f"{change.id}@{place.net}")

    def take_back(self, change: Change) -> None:
        """Give a change that was set aside its id back, unless another one has it."""
        own = change.id.rpartition("@")[0]
        if is_aside(change) and own not in self.active:
            self._rename(change, change.id, own)

    def _rename(self, change: Change, before: str, after: str) -> None:
        renamed = replace(change, id=after)
        self._remember_changes([renamed])
        self._try_write([_record_of(renamed)])
        self.undone([before], f"goes on as {after}")

    def _stamped(self, change: Change) -> Change:
        place = replace(self._place, folder=places.folder_of(change.target))
        return replace(change, at=self._clock(), place=place)

    def _mark_unrecorded(self, records: Iterable[Any], why: str) -> None:
        undone = (one.id for one in records if isinstance(one, UndoneRecord))
        self.unrecorded |= dict.fromkeys(undone, why)

    @contextmanager
    def gathering(self) -> Iterator[None]:
        """What is undone or noted in the body is written when it ends, or with the next change."""
        if self._batch is not None:
            yield
            return
        self._batch = []
        try:
            yield
        finally:
            held, self._batch = self._batch, None
            if why := self._try_write(held):
                self._mark_unrecorded(held, why)

    def note(self, target: str, text: str, *, written: bool = True) -> None:
        """Note that something was seen and left alone; in memory only, unless `written`."""
        note = Note(self._clock(), target, text)
        self._keep_note(note)
        if written:
            self._try_write([NoteRecord(at=note.at, target=target, text=text)])

    def in_force(self) -> list[Change]:
        """Changes in force, those first that nobody has reached yet."""
        return [*self.aside.values(), *self.active.values()]

    def unrecorded_line(self) -> str:
        """Name changes that are undone, and why the file does not say so."""
        named = [*self.unrecorded][:MAX_CHANGES_NAMED]
        left = len(self.unrecorded) - len(named)
        more = f" and {left} more" if left else ""
        why = self.unrecorded[named[0]]
        return f"undone, but not recorded: {', '.join(named)}{more}: {why}"

    def tail(self, limit: int) -> list[dict[str, Any]]:
        """The latest records as they are in the file, oldest first."""
        lines = deque(_lines(self.path), maxlen=limit)
        return [msgspec.to_builtins(record) for record in map(_decode, lines) if record]

    def _keep_note(self, note: Note) -> None:
        self.notes.append(note)
        del self.notes[:-MAX_NOTES]

    def _has(self, change: Change) -> bool:
        known = self.active.get(change.id)
        return known is not None and replace(known, at=change.at, place=change.place) == change

    def _remember_changes(self, changes: Iterable[Change]) -> None:
        for change in changes:
            kept = self.aside if is_aside(change) else self.active
            kept.pop(change.id, None)
            kept[change.id] = change
            if self._copy is not None:
                self._copy.put(change.id, msgspec.json.encode(_record_of(change)))

    def _try_write(self, records: list[Any]) -> str:
        """Append records without which undoing goes on all the same; returns why they could not be
        written.  Inside `gathering` they wait."""
        if self._batch is not None:
            self._batch += records
            return ""
        known = self._outdated
        try:
            self._write(records)
        except HostccError as error:
            self._outdated = True
            if not known:
                log.failure("what was undone is not on disk yet", reason=str(error))
            return str(error)
        return ""

    def _write(self, records: list[Any]) -> None:
        """Append and make durable.  An observer that never opened the journal writes nothing."""
        if self._fd < 0 and self._open_error:
            raise HostccError(self._open_error)
        if self._fd < 0 or not records:
            return
        raw = self._encoded(records)
        waiting: list[Any] = []
        if self._batch:
            waiting, self._batch = self._batch, []
            raw = self._encoded(waiting) + raw
        try:
            self._append(raw)
        except HostccError as error:
            self._mark_unrecorded(waiting, str(error))
            raise

    def _append(self, raw: bytes) -> None:
        if self._outdated or self._size + len(raw) > self._max_bytes:
            self._rotate()
        try:
            _append(self._fd, raw)
            os.fsync(self._fd)
        except OSError as error:
            self._outdated = (
                True  # maybe a part of it is there: what comes next begins a fresh file
            )
            raise HostccError(f"journal {self.path}: {error.strerror}") from None
        self._size += len(raw)

    def _encoded(self, records: Iterable[Any]) -> bytes:
        lines = [in_json(encoded(record).decode()).encode() + b"\n" for record in records]
        longest = max(map(len, lines))
        if longest > MAX_LINE_BYTES:
            raise HostccError(
                f"journal {self.path}: a record of {longest} bytes, "
                f"expected at most {MAX_LINE_BYTES}"
            )
        return b"".join(lines)

    def _rotate(self) -> None:
        """Start a fresh file with what is in force.  A crash leaves the old one or the new one."""
        fresh, old = self.path.with_suffix(".new"), self.path.with_suffix(".old.jsonl")
        start = StartRecord(at=self._clock(), pid=os.getpid(), boot=self._boot)
        raw = self._encoded([start, *map(_record_of, self.in_force())])
        fd = -1
        try:
            fresh.unlink(missing_ok=True)
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
            fd = os.open(fresh, flags | os.O_NOFOLLOW, 0o600)
            _append(fd, raw)
            os.fsync(fd)
            old.unlink(missing_ok=True)
            with suppress(FileNotFoundError):  # somebody took the journal away
                os.link(self.path, old, follow_symlinks=False)
            fresh.replace(self.path)
        except OSError as error:
            with suppress(OSError):
                if fd >= 0:
                    os.close(fd)
                    fresh.unlink(missing_ok=True)
            raise HostccError(f"journal {self.path}: {error.strerror}") from None
        with suppress(OSError):
            os.close(self._fd)
        self._fd, self._size, self._outdated = fd, len(raw), False
        self.unrecorded.clear()
        self._max_bytes = max(self._max_bytes, 2 * self._size)  # what is in force must fit

    def _load(self) -> None:
        boot, ours = self._boot, False
        for line in _lines(self.path):
            record = _decode(line)
            if isinstance(record, StartRecord):
                ours = record.boot == boot  # nothing that was done survives a boot
                self.last_pid = record.pid if ours else 0
                if not ours:
                    self.active.clear()
                    self.aside.clear()
            elif record is None:
                self.damaged += 1
            elif ours:
                self._replay(record)

    def _replay(self, record: Record) -> None:
        match record:
            case ChangeRecord():
                self._remember_changes([_change_of(record)])
            case UndoneRecord():
                self.active.pop(record.id, None)
                self.aside.pop(record.id, None)
            case NoteRecord():
                self._keep_note(Note(record.at, record.target, record.text))


def recorded(where: AttributeCopy) -> list[Change]:
    """Read the changes in force from cgroup attributes, in the order in which they were made."""
    records = [one for raw in where.records() if isinstance(one := _decode(raw), ChangeRecord)]
    return sorted(map(_change_of, records), key=lambda one: one.at)


def is_aside(change: Change) -> bool:
    """Whether a change has the id of those that could not be reached."""
    return change.place is not None and change.id.endswith(f"@{change.place.net}")


def boot_id() -> str:
    """Read the kernel's id of this boot; empty where it gives none."""
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return ""


def row_of(change: Change) -> ChangeRow:
    """A change as it is shown."""
    return ChangeRow(**vars(change))


def _record_of(change: Change) -> ChangeRecord:
    return ChangeRecord(**vars(change))


def _change_of(record: ChangeRecord) -> Change:
    return Change(**msgspec.structs.asdict(record))


def _decode(line: bytes) -> Record | None:
    try:
        return _DECODER.decode(line)
    except UNDECODABLE:
        return None


def _append(fd: int, raw: bytes) -> None:
    """Write all of it.  Raises OSError, after which some of it may be there."""
    left = memoryview(raw)
    while left:
        written = os.write(fd, left)
        if written <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        left = left[written:]


def _lines(path: Path) -> Iterator[bytes]:
    """The lines of a journal that is ours, however long it is; of a line that is longer than a
    record can be only its beginning.  Raises HostccError for a journal that is not ours."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(fd, "rb") as stream:
            facts = os.fstat(fd)
            if not stat.S_ISREG(facts.st_mode):
                raise HostccError(f"journal {path}: expected a file")
            if facts.st_uid != os.geteuid() or facts.st_mode & 0o022:
                raise HostccError(f"journal {path}: somebody else could have written it")
            inside = False
            while piece := stream.readline(MAX_LINE_BYTES):
                if not inside and piece != b"\n":
                    yield piece
                inside = not piece.endswith(b"\n")
    except FileNotFoundError:
        return
    except OSError as error:
        raise HostccError(f"journal {path}: {error.strerror}") from None
