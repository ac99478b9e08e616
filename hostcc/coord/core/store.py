"""All records that a member holds; the result does not depend on their order of arrival.

Other records can make a record void, and then it is not held: those of a writer's earlier life, and
accusations that their subject has refuted. A record dropped for its age is remembered for a while,
so that a slower member cannot bring it back.
"""

from __future__ import annotations

import struct
from array import array
from collections import deque
from collections.abc import Iterator, Mapping
from enum import Enum
from functools import lru_cache
from hashlib import blake2b

from hostcc.coord.core.message import MAX_LEAVES, Record
from hostcc.coord.core.payloads import ACCUSE, KINDS, MEMBER, Accusation, Content, Member
from hostcc.coord.core.record_checker import CheckedRecord, Slot
from hostcc.coord.core.settings import Settings

MEMBER_SLOT: Slot = (MEMBER, "")
_PACKED = struct.Struct(f">{MAX_LEAVES}Q")
_NOTHING: Mapping[Slot, CheckedRecord] = {}


class PutResult(Enum):
    """The result of offering a record to the store."""

    NEW = "new"
    SAME = "same"
    OLD = "old"
    """A newer one is held."""
    VOID = "void"
    """Other records make it void, or it was dropped for its age."""
    FULL = "full"
    """Its writer has too many records, or there are too many writers."""


@lru_cache(maxsize=65_536)
def leaf_of(writer: str) -> int:
    """Return the index of the hash that covers a writer's records."""
    return blake2b(writer.encode(), digest_size=1).digest()[0] % MAX_LEAVES


class Store:
    """Records by writer.

    A writer's mapping is replaced, never changed in place, so that simulated members with equal
    contents can share it.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._writers: dict[str, Mapping[Slot, CheckedRecord]] = {}
        self._leaves = array("Q", bytes(8 * MAX_LEAVES))
        self._accused: dict[str, dict[str, int]] = {}
        self._withdrawn: deque[tuple[float, str, Slot, int]] = deque()
        self._dropped: dict[int, tuple[CheckedRecord, float]] = {}
        self.revision = 0
        """Number of changes so far."""
        self._changes = dict.fromkeys(KINDS, 0)
        """The same by kind of record; kinds that are unknown here are not counted."""

    def __len__(self) -> int:
        return sum(map(len, self._writers.values()))

    @property
    def dropped_count(self) -> int:
        """Number of dropped records that are remembered."""
        return len(self._dropped)

    def adopt(self, other: Store) -> None:
        """Hold what `other` holds, sharing it: for simulations that begin with a formed cluster."""
        self._writers = dict(other._writers)
        self._leaves = array("Q", other._leaves)
        self._accused = {subject: dict(who) for subject, who in other._accused.items()}
        self.revision += 1
        self._changes = {kind: count + 1 for kind, count in self._changes.items()}

    def writers(self) -> Iterator[str]:
        """Iterate over the writers of all held records."""
        return iter(self._writers)

    def held(self) -> Mapping[str, Mapping[Slot, CheckedRecord]]:
        """Return all records by writer, as of now."""
        return dict(self._writers)

    def of(self, writer: str) -> Mapping[Slot, CheckedRecord]:
        """Return a writer's records by slot."""
        return self._writers.get(writer, _NOTHING)

    def get(self, writer: str, slot: Slot) -> CheckedRecord | None:
        """Return the record in a slot; None: none is held."""
        return self.of(writer).get(slot)

    def member(self, writer: str) -> Member | None:
        """Return a writer's own membership record; None: none is held."""
        held = self.get(writer, MEMBER_SLOT)
        return held.kept if held and isinstance(held.kept, Member) else None

    def incarnation(self, writer: str) -> int:
        """Return the incarnation of a writer's member record; -1: none is held."""
        held = self.get(writer, MEMBER_SLOT)
        return -1 if held is None else held.incarnation

    def accused(self) -> list[str]:
        """Return the members that somebody accuses."""
        return list(self._accused)

    def accusers(self, subject: str) -> Mapping[str, int]:
        """Return accuser -> accused incarnation for one member."""
        return self._accused.get(subject, {})

    def changes(self, *kinds: str) -> int:
        """Return the number of changes so far of records of these kinds, which are in KINDS."""
        return sum(self._changes[kind] for kind in kinds)

    def leaves(self) -> bytes:
        """Return the MAX_LEAVES hashes of the store, 8 bytes each."""
        return _PACKED.pack(*self._leaves)

    def root(self) -> bytes:
        """Return one hash of the whole store, 8 bytes."""
        return blake2b(self.leaves(), digest_size=8).digest()

    def dropped(self, slot: int, stamp: int) -> CheckedRecord | None:
        """Return the record dropped for its age that blocks one of this stamp; None: nothing does.

        A writer that has lost all memory is sent it, so that it can exceed its earlier life.
        """
        note = self._dropped.get(slot)
        return note[0] if note is not None and stamp <= note[0].stamp else None

    def put_result(self, held: CheckedRecord) -> PutResult:
        """Return what `put` would return, without changing anything."""
        record = held.record
        slots = self.of(record.writer)
        slot = (record.kind, record.key)
        before = slots.get(slot)
        if before is not None and held.order <= before.order:
            return PutResult.SAME if held.order == before.order else PutResult.OLD
        if self.dropped(held.slot, held.stamp) is not None or self.voids(record, held.kept):
            return PutResult.VOID
        if self._full(slots, held, before):
            return PutResult.FULL
        return PutResult.NEW

    def voids(self, record: Record, content: Content | None) -> bool:
        """Return whether held records make another record void."""
        member = self.member(record.writer)
        if member is not None and record.kind != MEMBER and record.incarnation < member.birth:
            return True
        if isinstance(content, Accusation):
            known = self.incarnation(record.key)
            return known < 0 or content.incarnation < known
        return False

    def put(self, held: CheckedRecord, now: float) -> PutResult:
        """Store a record if it is new; `now`: experienced seconds."""
        fate = self.put_result(held)
        if fate is PutResult.NEW:
            self._set(held)
            if held.withdrawn:
                due = now + self._settings.tombstone_s
                self._withdrawn.append((due, held.writer, (held.kind, held.key), held.stamp))
            if isinstance(held.kept, Member):
                self._newer_member(held.writer, held.kept)
        return fate

    def expire(self, now: float) -> None:
        """Drop withdrawn records, and memories of dropped ones, that have reached their age."""
        while self._withdrawn and self._withdrawn[0][0] <= now:
            _, writer, slot, stamp = self._withdrawn.popleft()
            held = self.get(writer, slot)
            if held is not None and held.stamp == stamp:
                self._remember_dropped(held, now)
                self._drop(held)
        while self._dropped:
            oldest = next(iter(self._dropped))
            if self._dropped[oldest][1] > now:
                break
            del self._dropped[oldest]

    def forget(self, writer: str, now: float) -> None:
        """Drop all records of a writer, and all accusations against it."""
        for held in list(self.of(writer).values()):
            self._remember_dropped(held, now)
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
            if held.kind != MEMBER and held.incarnation < member.birth:
                self._drop(held)
        self._drop_accusations(writer, below=self.incarnation(writer))

    def _drop_accusations(self, subject: str, below: int | None) -> None:
        for accuser, incarnation in list(self.accusers(subject).items()):
            if below is None or incarnation < below:
                held = self.get(accuser, (ACCUSE, subject))
                if held is not None:
                    self._drop(held)

    def _set(self, held: CheckedRecord) -> None:
        slot = (held.kind, held.key)
        slots = self.of(held.writer)
        before = slots.get(slot)
        self._writers[held.writer] = {**slots, slot: held}
        self._leaves[leaf_of(held.writer)] ^= held.fingerprint ^ (
            before.fingerprint if before else 0
        )
        self._count_change(held, present=True)

    def _drop(self, held: CheckedRecord) -> None:
        slots = dict(self.of(held.writer))
        del slots[held.kind, held.key]
        if slots:
            self._writers[held.writer] = slots
        else:
            del self._writers[held.writer]
        self._leaves[leaf_of(held.writer)] ^= held.fingerprint
        self._count_change(held, present=False)

    def _count_change(self, held: CheckedRecord, *, present: bool) -> None:
        self.revision += 1
        if held.kind in self._changes:
            self._changes[held.kind] += 1
        if held.kind != ACCUSE:
            return
        accusers = self._accused.setdefault(held.key, {})
        if present and isinstance(held.kept, Accusation):
            accusers[held.writer] = held.kept.incarnation
        else:
            accusers.pop(held.writer, None)
        if not accusers:
            del self._accused[held.key]

    def _remember_dropped(self, held: CheckedRecord, now: float) -> None:
        self._dropped.pop(held.slot, None)
        self._dropped[held.slot] = (held, now + self._settings.dropped_s)
