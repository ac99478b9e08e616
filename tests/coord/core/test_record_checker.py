"""Records are held packed: nothing of them is lost, and many take little memory."""

from __future__ import annotations

import tracemalloc

import msgspec
import pytest

from hostcc.coord.core import codec, payloads
from hostcc.coord.core.message import COUNTER_MAX, MAX_SIGNATURE, Record
from hostcc.coord.core.payloads import Addresses, Profile
from hostcc.coord.core.record_checker import CheckedRecord, RecordChecker
from hostcc.coord.keys.no_keys import NoKeys

pytestmark = pytest.mark.unit

PROFILE = payloads.encode(Profile(1.0, 0.5, 1e14, 8.0, 1.5, 0.5, to=(("host00001", 1e9),)))
RECORDS = [
    Record("h1", 1_700_000_000, 7, payloads.PROFILE, "j", PROFILE, b"s" * 64),
    Record("h1", COUNTER_MAX, COUNTER_MAX, payloads.PROFILE, "j", b"", b"s" * MAX_SIGNATURE),
    Record("h2", 0, 1, "unknown", "", b"x" * 5000, b""),
    Record("h2", 1, 1, payloads.ADDRESSES, "", payloads.encode(Addresses(("10.0.0.1",))), b"s"),
]


def checked(record: Record) -> CheckedRecord:
    return RecordChecker(NoKeys(), cached=1).check(record)


@pytest.mark.parametrize("record", RECORDS)
def test_nothing_of_a_record_is_lost(record: Record) -> None:
    held, data = checked(record), codec.signed_bytes(record)
    assert held.record == record
    assert (held.payload, held.withdrawn) == (record.payload, not record.payload)
    assert (held.incarnation, held.stamp % 2**32) == (record.incarnation, record.version)
    assert held.order == (held.stamp, held.fingerprint)
    assert held.content == payloads.decode(record)
    assert held.size == len(data) + len(record.signature)


def test_many_records_take_little_memory() -> None:
    checker, count = RecordChecker(NoKeys(), cached=1), 2000
    # As they come: numbers and bytes of each are objects of their own.
    raw = [msgspec.msgpack.encode(RECORDS[0]) for _ in range(count)]
    bare = len(PROFILE) + len(RECORDS[0].signature)
    tracemalloc.start()
    try:
        held = [checker.check(msgspec.msgpack.decode(one, type=Record)) for one in raw]
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert len(held) == count
    assert taken < count * (bare + 250)
