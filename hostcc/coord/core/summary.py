"""Summaries of records on the wire: 24 bytes each."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

from hostcc.coord.core.record_checker import CheckedRecord

_ENTRY = struct.Struct(">QQQ")
_SLOT = struct.Struct(">Q")


def pack(records: Iterable[CheckedRecord]) -> bytes:
    """Return message.ENTRY_BYTES for each record."""
    return b"".join(_ENTRY.pack(held.slot, held.stamp, held.fingerprint) for held in records)


def unpack(entries: bytes) -> Iterator[tuple[int, tuple[int, int]]]:
    """Yield (slot, (stamp, fingerprint)) of each entry."""
    for slot, stamp, fingerprint in _ENTRY.iter_unpack(entries):
        yield slot, (stamp, fingerprint)


def pack_slots(slots: Iterable[int]) -> bytes:
    """Return message.HASH_BYTES for each slot."""
    return b"".join(map(_SLOT.pack, slots))


def unpack_slots(data: bytes) -> Iterator[int]:
    """Yield the slots in `data`."""
    for (slot,) in _SLOT.iter_unpack(data):
        yield slot
