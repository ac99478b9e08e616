"""This member's own records: numbered, signed, replaced, withdrawn, taken up after a restart."""

from __future__ import annotations

from msgspec.structs import replace

from hostcc.coord.core import codec, payloads
from hostcc.coord.core.intake import CheckedRecord, Intake, Slot
from hostcc.coord.core.message import COUNTER_MAX, Record
from hostcc.coord.core.payloads import ACCUSE, Accusation, Content, Member
from hostcc.coord.core.signing import Signer
from hostcc.coord.core.store import MEMBER_SLOT, Store

MAX_ACCUSED = 128
"""Members that one accuses at a time: in a large cluster others accuse the rest."""


class LocalRecords:
    """Writes into the store under this member's name; returns what is new for the others.

    It is silent at first, until `begin`: what a new life says must not meet what is left of the
    last one before this host knows that there was one.
    """

    def __init__(
        self, name: str, member: Member, store: Store, intake: Intake, signer: Signer
    ) -> None:
        self.name = name
        self.incarnation = member.birth
        self.silent = True
        self._wishes: dict[Slot, bytes] = {}
        self._version = 0
        self._member = member
        self._store = store
        self._intake = intake
        self._signer = signer

    def begin(self, now: float) -> list[CheckedRecord]:
        """Say that this member takes part, and what has waited for it."""
        self.silent = False
        said = self._write(MEMBER_SLOT, payloads.encode(self._member), now)
        for slot, payload in self._wishes.items():
            said += self._write(slot, payload, now)
        self._wishes = {}
        return said

    def publish(self, slot: Slot, content: Content, now: float) -> list[CheckedRecord]:
        """Say something new; nothing is sent when it is not.  Raises payloads.PayloadError."""
        payload = payloads.encode(content)
        if self.silent:
            payloads.decode(Record(self.name, 1, 1, *slot, payload, b""))
            self._wishes[slot] = payload
            return []
        held = self._store.get(self.name, slot)
        if held is not None and held.record.payload == payload:
            return []
        return self._write(slot, payload, now)

    def withdraw(self, slot: Slot, now: float) -> list[CheckedRecord]:
        """Say that there is nothing of the kind any more."""
        self._wishes.pop(slot, None)
        held = self._store.get(self.name, slot)
        return [] if held is None or held.withdrawn else self._write(slot, b"", now)

    def accuse(self, member: str, now: float) -> list[CheckedRecord]:
        """Say that a member does not answer."""
        if self.silent:
            return []
        mine = [slot for slot in self._store.of(self.name) if slot[0] == ACCUSE]
        if len(mine) >= MAX_ACCUSED and (ACCUSE, member) not in mine:
            return []
        accusation = Accusation(self._store.incarnation(member))
        return self.publish((ACCUSE, member), accusation, now)

    def refute(self, now: float) -> list[CheckedRecord]:
        """Answer accusations: the next incarnation of the same life."""
        self.incarnation = min(self.incarnation + 1, COUNTER_MAX)
        return self.begin(now)

    def renew(self, now: float) -> list[CheckedRecord]:
        """Say everything again in a new life: signed by another key, and the old ones void."""
        return self._outdo(self.incarnation, now)

    def heard(self, held: CheckedRecord, now: float) -> list[CheckedRecord]:
        """What to say about a record of this name that came from elsewhere.

        It is of an earlier life, which this one has to outdo, or a withdrawn record that
        somebody still had.  Accusations are not withdrawn: their subject refutes them, or not.
        """
        record = held.record
        if self.silent:
            self.incarnation = max(self.incarnation, min(record.incarnation + 1, COUNTER_MAX))
            self._member = replace(self._member, birth=self.incarnation)
            return []
        theirs = (record.incarnation, record.version)
        if theirs > (self.incarnation, self._version):
            return self._outdo(record.incarnation, now)
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
        return self._outdo(record.incarnation, now) if newer or foreign else []

    def _outdo(self, incarnation: int, now: float) -> list[CheckedRecord]:
        """Begin a new life above an incarnation, and say everything again."""
        self.incarnation = min(max(incarnation, self.incarnation) + 1, COUNTER_MAX)
        kept = [
            (slot, held.record.payload)
            for slot, held in self._store.of(self.name).items()
            if slot != MEMBER_SLOT and not held.withdrawn
        ]
        self._member = replace(self._member, birth=self.incarnation)
        said = self.begin(now)
        for slot, payload in kept:
            said += self._write(slot, payload, now)
        return said

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
        held = self._intake.trusted(record, data)
        self._store.put(held, now)
        return [held]
