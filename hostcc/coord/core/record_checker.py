"""Checks each incoming record once: its signature, its bounds, and its short hashes."""

from __future__ import annotations

import hashlib
import struct
from sys import intern
from typing import Generic, TypeVar

from msgspec import Struct

from hostcc.coord.core import codec, payloads
from hostcc.coord.core.message import Record
from hostcc.coord.core.payloads import Content, HostCertificate, RevokedCertificates
from hostcc.coord.core.signing import Verifier
from hostcc.errors import HostccError

MAX_CHECKED_RECORDS = 512
"""Checked records in each of two cache generations; 16 MiB when all have the largest size."""
MAX_SLOT_NAMES = 131_072
"""Slots in each generation of the cache of their writers."""

K = TypeVar("K")
V = TypeVar("V")
Slot = tuple[str, str]
"""(kind, key)."""

_BULKY = frozenset({payloads.PROFILE, payloads.FLOWS, payloads.PATHS, payloads.LINKS})
"""Kinds of almost all records of a large cluster: read when they are new, and seldom again."""
_HEADER = struct.Struct(">QQIB")
"""Stamp, fingerprint, size, length of the signature."""
_SIZE_AT, _SIGNATURE_AT = 16, 20


class CheckedRecord(Struct, frozen=True, gc=False):
    """A record that passed the checks, with values derived from it.

    A member of a large cluster holds tens of thousands. So what is seldom read is packed: objects
    of its own for each number would take more memory than the numbers.
    """

    writer: str
    kind: str
    key: str
    slot: int
    """64-bit hash of writer, kind and key."""
    kept: Content | None
    """The content, unless its kind is bulky: ten times as long as the payload."""
    packed: bytes
    """_HEADER, signature and payload."""

    @staticmethod
    def of(
        record: Record, slot: int, fingerprint: int, kept: Content | None, size: int
    ) -> CheckedRecord:
        """Return a record as checked; the arguments are as the attributes of these names."""
        header = _HEADER.pack(stamp_of(record), fingerprint, size, len(record.signature))
        packed = b"".join((header, record.signature, record.payload))
        writer, kind, key = map(intern, (record.writer, record.kind, record.key))
        return CheckedRecord(writer, kind, key, slot, kept, packed)

    @property
    def record(self) -> Record:
        """The record as its writer made it."""
        at = _HEADER.size + self.packed[_SIGNATURE_AT]
        signature, payload = self.packed[_HEADER.size : at], self.packed[at:]
        incarnation, version = divmod(self.stamp, 1 << 32)
        return Record(self.writer, incarnation, version, self.kind, self.key, payload, signature)

    @property
    def content(self) -> Content | None:
        """The content; None: withdrawn, or of a kind that this version does not know.

        That of a bulky kind is decoded each time.
        """
        return payloads.decode(self.record) if self.kind in _BULKY else self.kept

    @property
    def payload(self) -> bytes:
        """The content as encoded; empty: withdrawn."""
        return self.packed[_HEADER.size + self.packed[_SIGNATURE_AT] :]

    @property
    def stamp(self) -> int:
        """Incarnation and version as one number; the higher one replaces the lower."""
        return int.from_bytes(self.packed[:8], "big")

    @property
    def incarnation(self) -> int:
        """The writer's incarnation."""
        return self.stamp >> 32

    @property
    def fingerprint(self) -> int:
        """64-bit hash of the signed bytes; breaks ties between records of one stamp."""
        return int.from_bytes(self.packed[8:16], "big")

    @property
    def size(self) -> int:
        """Approximate bytes in a message."""
        return int.from_bytes(self.packed[_SIZE_AT:_SIGNATURE_AT], "big")

    @property
    def order(self) -> tuple[int, int]:
        """Sort key: of two records in one slot the one with the greater key replaces the other."""
        return self.stamp, self.fingerprint

    @property
    def withdrawn(self) -> bool:
        """Whether the writer has withdrawn the record, which leaves its payload empty."""
        return len(self.packed) == _HEADER.size + self.packed[_SIGNATURE_AT]


class UnsignedError(HostccError):
    """No key of the writer that is known here made the signature."""


class StrangerError(HostccError):
    """The writer is not accepted here: on no allow-list and without a certificate that is.

    Or the record is to prove something about it and does not.
    """


PROVING = frozenset({payloads.CERTIFICATE, payloads.REVOKED})
"""Kinds whose contents are signed by an authority of the cluster."""


class RecentCache(Generic[K, V]):
    """A mapping of two generations: an entry unused while one generation fills is dropped."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._young: dict[K, V] = {}
        self._old: dict[K, V] = {}

    def get(self, key: K) -> V | None:
        """Return the value; None: never stored, or dropped since."""
        found = self._young.get(key)
        if found is None:
            found = self._old.pop(key, None)
            if found is not None:
                self.put(key, found)
        return found

    def put(self, key: K, value: V) -> None:
        """Store a value as most recently used."""
        if len(self._young) >= self._most:
            self._old, self._young = self._young, {}
        self._young[key] = value

    def __len__(self) -> int:
        return len(self._young) + len(self._old)


class RecordChecker:
    """Checks records. Members of one process may share it, so that each record is checked once."""

    def __init__(self, verifier: Verifier, cached: int = MAX_CHECKED_RECORDS) -> None:
        """`cached`: records in each cache generation; more where members share it."""
        self._verifier = verifier
        self._checked: RecentCache[Record, CheckedRecord] = RecentCache(cached)
        self._writers: RecentCache[int, str] = RecentCache(MAX_SLOT_NAMES)

    def knows(self, writer: str) -> bool:
        """Return whether the writer is accepted here."""
        return self._verifier.knows(writer)

    def check(self, record: Record) -> CheckedRecord:
        """Return the checked record. Raises StrangerError, UnsignedError, payloads.PayloadError.

        Only a PayloadError is known to be the writer's own fault: it has signed the record.
        """
        if record.kind in PROVING and record.payload:
            self._learn(record)
        if not self._verifier.knows(record.writer):
            raise StrangerError(f"{record.writer}: expected an allowed member")
        found = self._checked.get(record)
        if found is None:
            data = codec.signed_bytes(record)
            if not self._verifier.verify(record.writer, data, record.signature):
                raise UnsignedError(f"record of {record.writer}: expected its signature")
            found = self.check_own(record, data)
            self._checked.put(record, found)
        return found

    def _learn(self, record: Record) -> None:
        try:
            content = payloads.decode(record)
        except payloads.PayloadError as error:
            raise StrangerError(f"{record.writer}: {error}") from None
        if isinstance(content, HostCertificate | RevokedCertificates):
            why = self._verifier.learn_record(record.writer, record.kind, content.raw)
            if why:
                raise StrangerError(f"{record.writer}: {why}")

    def check_own(self, record: Record, data: bytes) -> CheckedRecord:
        """Return a record of this member as checked; `data`: its signed bytes. Raises
        payloads.PayloadError."""
        content = payloads.decode(record)
        held = CheckedRecord.of(
            record,
            slot=slot_of(record.writer, record.kind, record.key),
            fingerprint=_hash64(data),
            kept=None if record.kind in _BULKY else content,
            size=len(data) + len(record.signature),
        )
        self._writers.put(held.slot, held.writer)
        return held

    def writer(self, slot: int) -> str | None:
        """Return who writes in a slot; None: never seen, or dropped from the cache."""
        return self._writers.get(slot)


def stamp_of(record: Record) -> int:
    """Return incarnation and version as one number, the incarnation in the upper bits."""
    return record.incarnation << 32 | record.version


def slot_of(writer: str, kind: str, key: str) -> int:
    """Return a 64-bit hash of writer, kind and key; none of them can contain the separator."""
    return _hash64(f"{writer}/{kind}/{key}".encode())


def _hash64(data: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "big")
