"""A record is checked once, when it comes in: its signature, its bounds, its names in short."""

from __future__ import annotations

import hashlib
from typing import Generic, TypeVar

from msgspec import Struct

from hostcc.coord.core import codec, payloads
from hostcc.coord.core.message import Record
from hostcc.coord.core.payloads import Content
from hostcc.coord.core.signing import Verifier
from hostcc.errors import HostccError

CACHED = 512
"""Records that stay checked; a second generation of as many is kept beside them, which is
16 MiB of the largest."""
NAMED = 131_072
"""Slots whose names are known, likewise."""

K = TypeVar("K")
V = TypeVar("V")
Slot = tuple[str, str]
"""(kind, key)."""


class CheckedRecord(Struct, frozen=True):
    """A record that was checked, with what is derived from it."""

    record: Record
    slot: int
    """64 bits that stand for writer, kind and key."""
    stamp: int
    """(incarnation, version) as one number: the greater replaces the smaller."""
    fingerprint: int
    """64 bits of everything that is signed; decides between two records of one stamp."""
    content: Content | None
    """None: withdrawn, or of a kind that is unknown here."""
    size: int
    """Bytes of it in a message, about."""

    @property
    def order(self) -> tuple[int, int]:
        """The greater replaces the smaller."""
        return self.stamp, self.fingerprint

    @property
    def withdrawn(self) -> bool:
        """Whether it says that there is nothing any more."""
        return not self.record.payload


class UnsignedError(HostccError):
    """The signature is not by a key of the writer that is known here."""


class StrangerError(HostccError):
    """The writer is on nobody's list here."""


class RecentCache(Generic[K, V]):
    """A mapping that forgets what was not used while it was filled once over."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._young: dict[K, V] = {}
        self._old: dict[K, V] = {}

    def get(self, key: K) -> V | None:
        """None: never seen, or forgotten."""
        found = self._young.get(key)
        if found is None:
            found = self._old.pop(key, None)
            if found is not None:
                self.put(key, found)
        return found

    def put(self, key: K, value: V) -> None:
        """Remember for a while."""
        if len(self._young) >= self._most:
            self._old, self._young = self._young, {}
        self._young[key] = value

    def __len__(self) -> int:
        return len(self._young) + len(self._old)


class Intake:
    """Checks records.  Members of one process may share one: a record is then checked once."""

    def __init__(self, verifier: Verifier, cached: int = CACHED) -> None:
        """`cached`: more where members share it."""
        self._verifier = verifier
        self._checked: RecentCache[Record, CheckedRecord] = RecentCache(cached)
        self._names: RecentCache[int, tuple[str, Slot]] = RecentCache(NAMED)

    def admit(self, record: Record) -> CheckedRecord:
        """The record, checked.  Raises StrangerError, UnsignedError, payloads.PayloadError."""
        if not self._verifier.knows(record.writer):
            raise StrangerError(f"{record.writer}: expected an allowed member")
        found = self._checked.get(record)
        if found is None:
            data = codec.signed_bytes(record)
            if not self._verifier.verify(record.writer, data, record.signature):
                raise UnsignedError(f"record of {record.writer}: expected its signature")
            found = self.trusted(record, data)
            self._checked.put(record, found)
        return found

    def trusted(self, record: Record, data: bytes) -> CheckedRecord:
        """A record of one's own, whose signed bytes are `data`.  Raises payloads.PayloadError."""
        held = CheckedRecord(
            record=record,
            slot=slot_of(record.writer, record.kind, record.key),
            stamp=stamp_of(record),
            fingerprint=_hash64(data),
            content=payloads.decode(record),
            size=len(data) + len(record.signature),
        )
        self._names.put(held.slot, (record.writer, (record.kind, record.key)))
        return held

    def name(self, slot: int) -> tuple[str, Slot] | None:
        """(writer, (kind, key)) of a slot; None: not known, or forgotten."""
        return self._names.get(slot)


def stamp_of(record: Record) -> int:
    """(incarnation, version) as one number."""
    return record.incarnation << 32 | record.version


def slot_of(writer: str, kind: str, key: str) -> int:
    """64 bits for a writer, a kind and a key; none of them can contain the separator."""
    return _hash64(f"{writer}/{kind}/{key}".encode())


def _hash64(data: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "big")
