"""All records that a member holds; what it holds does not depend on the order they came in.

A record is void, and not held, when records of the same store say so: those of a writer's
earlier life, and accusations that their subject has refuted.  A record that was dropped for its
age leaves a note for a while, so that a slower member cannot bring it back.
"""

from __future__ import annotations

import struct
from array import array
from collections import deque
from collections.abc import Iterator, Mapping
from enum import Enum
from functools import lru_cache
from hashlib import blake2b

from hostcc.coord.core.intake import CheckedRecord, Slot
from hostcc.coord.core.message import MAX_LEAVES, Record
from hostcc.coord.core.payloads import ACCUSE, MEMBER, Accusation, Content, Member
from hostcc.coord.core.settings import Settings

MEMBER_SLOT: Slot = (MEMBER, "")
_PACKED = struct.Struct(f">{MAX_LEAVES}Q")
_NOTHING: Mapping[Slot, CheckedRecord] = {}


class Fate(Enum):
    """What became of a record that was offered."""

    NEW = "new"
    SAME = "same"
    OLD = "old"
    """A newer one is held."""
    VOID = "void"
    """Other records say that it no longer counts, or it was dropped for its age."""
    FULL = "full"
    """Its writer has too many, or there are too many writers."""


@lru_cache(maxsize=65_536)
def leaf_of(writer: str) -> int:
    """Which of the hashes of a store a writer's records are in."""
    return blake2b(writer.encode(), digest_size=1).digest()[0] % MAX_LEAVES


class Store:
    """Records by writer.

    The mapping of a writer is replaced, never changed, when one of its records is: so
    simulated members that hold the same can share it.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._writers: dict[str, Mapping[Slot, CheckedRecord]] = {}
        self._leaves = array("Q", bytes(8 * MAX_LEAVES))
        self._accused: dict[str, dict[str, int]] = {}
        self._withdrawn: deque[tuple[float, str, Slot, int]] = deque()
        self._notes: dict[int, tuple[CheckedRecord, float]] = {}
        self.revision = 0
        """Counts changes."""

    def __len__(self) -> int:
        return sum(map(len, self._writers.values()))

    @property
    def notes(self) -> int:
        """How many dropped records are remembered."""
        return len(self._notes)

    def adopt(self, other: Store) -> None:
        """Hold what another holds, sharing it: how simulated members start in mid-life."""
        self._writers = dict(other._writers)
        self._leaves = array("Q", other._leaves)
        self._accused = {subject: dict(who) for subject, who in other._accused.items()}
        self.revision += 1

    def writers(self) -> Iterator[str]:
        """Everybody of whom something is held."""
        return iter(self._writers)

    def of(self, writer: str) -> Mapping[Slot, CheckedRecord]:
        """A writer's records."""
        return self._writers.get(writer, _NOTHING)

    def get(self, writer: str, slot: Slot) -> CheckedRecord | None:
        """One record."""
        return self.of(writer).get(slot)

    def member(self, writer: str) -> Member | None:
        """What a writer says of itself."""
        held = self.get(writer, MEMBER_SLOT)
        return held.content if held and isinstance(held.content, Member) else None

    def incarnation(self, writer: str) -> int:
        """Of a writer's member record; -1: there is none."""
        held = self.get(writer, MEMBER_SLOT)
        return -1 if held is None else held.record.incarnation

    def accused(self) -> list[str]:
        """Members that somebody accuses."""
        return list(self._accused)

    def accusers(self, subject: str) -> Mapping[str, int]:
        """Who accuses a member, in which of its incarnations."""
        return self._accused.get(subject, {})

    def leaves(self) -> bytes:
        """Its MAX_LEAVES hashes, 8 bytes each."""
        return _PACKED.pack(*self._leaves)

    def root(self) -> bytes:
        """One hash of everything, 8 bytes."""
        return blake2b(self.leaves(), digest_size=8).digest()

    def noted(self, slot: int, stamp: int) -> CheckedRecord | None:
        """The record that was dropped for its age, and keeps one of this stamp from coming back.

        A writer that has lost all memory is shown it, so that it can outdo its earlier life.
        """
        note = self._notes.get(slot)
        return note[0] if note is not None and stamp <= note[0].stamp else None

    def judge(self, held: CheckedRecord) -> Fate:
        """What `put` would do."""
        record = held.record
        slots = self.of(record.writer)
        slot = (record.kind, record.key)
        before = slots.get(slot)
        if before is not None and held.order <= before.order:
            return Fate.SAME if held.order == before.order else Fate.OLD
        if self.noted(held.slot, held.stamp) is not None or self.voids(record, held.content):
            return Fate.VOID
        if self._full(slots, held, before):
            return Fate.FULL
        return Fate.NEW

    def voids(self, record: Record, content: Content | None) -> bool:
        """Whether records of this store say that another one no longer counts."""
        member = self.member(record.writer)
        if member is not None and record.kind != MEMBER and record.incarnation < member.birth:
            return True
        if isinstance(content, Accusation):
            known = self.incarnation(record.key)
            return known < 0 or content.incarnation < known
        return False

    def put(self, held: CheckedRecord, now: float) -> Fate:
        """Take a record if it is news."""
        fate = self.judge(held)
        if fate is Fate.NEW:
            self._set(held)
            if held.withdrawn:
                record = held.record
                due = now + self._settings.tombstone_s
                self._withdrawn.append((due, record.writer, (record.kind, record.key), held.stamp))
            if isinstance(held.content, Member):
                self._newer_member(held.record.writer, held.content)
        return fate

    def expire(self, now: float) -> None:
        """Drop withdrawn records and notes whose time is over."""
        while self._withdrawn and self._withdrawn[0][0] <= now:
            _, writer, slot, stamp = self._withdrawn.popleft()
            held = self.get(writer, slot)
            if held is not None and held.stamp == stamp:
                self._note(held, now)
                self._drop(held)
        while self._notes:
            oldest = next(iter(self._notes))
            if self._notes[oldest][1] > now:
                break
            del self._notes[oldest]

    def forget(self, writer: str, now: float) -> None:
        """Drop everything of a writer, and what others say of it."""
        for held in list(self.of(writer).values()):
            self._note(held, now)
            self._drop(held)
        self._drop_accusations(writer, below=None)

    def _full(
        self, slots: Mapping[Slot, CheckedRecord], held: CheckedRecord, before: CheckedRecord | None
    ) -> bool:
        if not slots:
            return len(self._writers) >= self._settings.members
        count = len(slots) + (before is None)
        size = held.size + sum(other.size for other in slots.values() if other is not before)
        return count > self._settings.writer_records or size > self._settings.writer_bytes

    def _newer_member(self, writer: str, member: Member) -> None:
        for held in list(self.of(writer).values()):
            if held.record.kind != MEMBER and held.record.incarnation < member.birth:
                self._drop(held)
        self._drop_accusations(writer, below=self.incarnation(writer))

    def _drop_accusations(self, subject: str, below: int | None) -> None:
        for accuser, incarnation in list(self.accusers(subject).items()):
            if below is None or incarnation < below:
                held = self.get(accuser, (ACCUSE, subject))
                if held is not None:
                    self._drop(held)

    def _set(self, held: CheckedRecord) -> None:
        record = held.record
        slot = (record.kind, record.key)
        slots = self.of(record.writer)
        before = slots.get(slot)
        self._writers[record.writer] = {**slots, slot: held}
        self._leaves[leaf_of(record.writer)] ^= held.fingerprint ^ (
            before.fingerprint if before else 0
        )
        self._count_accusation(held, present=True)
        self.revision += 1

    def _drop(self, held: CheckedRecord) -> None:
        record = held.record
        slots = dict(self.of(record.writer))
        del slots[record.kind, record.key]
        if slots:
            self._writers[record.writer] = slots
        else:
            del self._writers[record.writer]
        self._leaves[leaf_of(record.writer)] ^= held.fingerprint
        self._count_accusation(held, present=False)
        self.revision += 1

    def _count_accusation(self, held: CheckedRecord, *, present: bool) -> None:
        record = held.record
        if record.kind != ACCUSE:
            return
        accusers = self._accused.setdefault(record.key, {})
        if present and isinstance(held.content, Accusation):
            accusers[record.writer] = held.content.incarnation
        else:
            accusers.pop(record.writer, None)
        if not accusers:
            del self._accused[record.key]

    def _note(self, held: CheckedRecord, now: float) -> None:
        self._notes.pop(held.slot, None)
        self._notes[held.slot] = (held, now + self._settings.note_s)
