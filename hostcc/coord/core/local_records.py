"""This member's own records: numbered, signed, replaced, withdrawn, reclaimed after a restart."""

from __future__ import annotations

from msgspec.structs import replace

from hostcc.coord.core import codec, payloads
from hostcc.coord.core.message import COUNTER_MAX, Record
from hostcc.coord.core.payloads import ACCUSE, Accusation, Content, Member
from hostcc.coord.core.record_checker import CheckedRecord, RecordChecker, Slot
from hostcc.coord.core.signing import Signer
from hostcc.coord.core.store import MEMBER_SLOT, Store

MAX_ACCUSED = 128
"""Members that one member accuses at a time: in a large cluster others accuse the rest."""


class LocalRecords:
    """Writes records of this member into the store; returns the new ones, to be gossiped.

    Publishes nothing until `begin`. Records left over from an earlier life of this host may still
    circulate; it must learn of them first, to number its own above them.
    """

    def __init__(
        self, name: str, member: Member, store: Store, checker: RecordChecker, signer: Signer
    ) -> None:
        self.name = name
        self.incarnation = member.birth
        self.silent = True
        self._wishes: dict[Slot, bytes] = {}
        self._version = 0
        self._member = member
        self._store = store
        self._checker = checker
        self._signer = signer

    def begin(self, now: float) -> list[CheckedRecord]:
        """Publish this member's own record, and everything that waited for it."""
        self.silent = False
        written = self._write(MEMBER_SLOT, payloads.encode(self._member), now)
        for slot, payload in self._wishes.items():
            written += self._write(slot, payload, now)
        self._wishes = {}
        return written

    def publish(self, slot: Slot, content: Content, now: float) -> list[CheckedRecord]:
        """Publish content; returns nothing if unchanged. Raises payloads.PayloadError."""
        payload = payloads.encode(content)
        if self.silent:
            payloads.decode(Record(self.name, 1, 1, *slot, payload, b""))
            self._wishes[slot] = payload
            return []
        held = self._store.get(self.name, slot)
        if held is not None and held.payload == payload:
            return []
        return self._write(slot, payload, now)

    def withdraw(self, slot: Slot, now: float) -> list[CheckedRecord]:
        """Withdraw what is published in a slot."""
        self._wishes.pop(slot, None)
        held = self._store.get(self.name, slot)
        return [] if held is None or held.withdrawn else self._write(slot, b"", now)

    def accuse(self, member: str, now: float) -> list[CheckedRecord]:
        """Publish that a member does not answer probes."""
        if self.silent:
            return []
        mine = [slot for slot in self._store.of(self.name) if slot[0] == ACCUSE]
        if len(mine) >= MAX_ACCUSED and (ACCUSE, member) not in mine:
            return []
        accusation = Accusation(self._store.incarnation(member))
        return self.publish((ACCUSE, member), accusation, now)

    def refute(self, now: float) -> list[CheckedRecord]:
        """Refute accusations by entering the next incarnation of the same life."""
        self.incarnation = min(self.incarnation + 1, COUNTER_MAX)
        return self.begin(now)

    def renew(self, now: float) -> list[CheckedRecord]:
        """Begin a new life and sign everything again with the current key; old records are void."""
        return self._start_new_life(self.incarnation, now)

    def answer_foreign(self, held: CheckedRecord, now: float) -> list[CheckedRecord]:
        """Respond to a record under this member's name that came from another member.

        It belongs to an earlier life, whose incarnation this one has to exceed, or was withdrawn
        and somebody still held it. Accusations are not withdrawn here: their subject refutes them.
        """
        record = held.record
        if self.silent:
            self.incarnation = max(self.incarnation, min(record.incarnation + 1, COUNTER_MAX))
            self._member = replace(self._member, birth=self.incarnation)
            return []
        theirs = (record.incarnation, record.version)
        if theirs > (self.incarnation, self._version):
            return self._start_new_life(record.incarnation, now)
        slot = (record.kind, record.key)
        mine = self._store.get(self.name, slot)
        if mine is None and record.kind == ACCUSE:
            self._store.put(held, now)
            return []
        if mine is None:
            current = record.incarnation >= self._member.birth and not held.withdrawn
            return self._write(slot, b"", now) if current else []
        foreign = held.stamp == mine.stamp and held.fingerprint != mine.fingerprint
        newer = held.order > mine.order
        return self._start_new_life(record.incarnation, now) if newer or foreign else []

    def _start_new_life(self, incarnation: int, now: float) -> list[CheckedRecord]:
        # A new life above `incarnation`, in which everything is published again.
        self.incarnation = min(max(incarnation, self.incarnation) + 1, COUNTER_MAX)
        kept = [
            (slot, held.payload)
            for slot, held in self._store.of(self.name).items()
            if slot != MEMBER_SLOT and not held.withdrawn
        ]
        self._member = replace(self._member, birth=self.incarnation)
        written = self.begin(now)
        for slot, payload in kept:
            written += self._write(slot, payload, now)
        return written

    def _write(self, slot: Slot, payload: bytes, now: float) -> list[CheckedRecord]:
        kind, key = slot
        self._version = min(self._version + 1, COUNTER_MAX)
        bare = Record(self.name, self.incarnation, self._version, kind, key, payload, b"")
        data = codec.signed_bytes(bare)
        record = Record(
            self.name,
            self.incarnation,
            self._version,
            kind,
            key,
            payload,
            self._signer.sign(data),
        )
        held = self._checker.check_own(record, data)
        self._store.put(held, now)
        return [held]
