"""Bytes from outside: typed, bounded, versioned, refused in one line."""

from __future__ import annotations

import msgpack
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostcc.coord.core import codec
from hostcc.coord.core.message import MAX_MESSAGE, PROTOCOL, Message, Probe, ViewReport
from tests.coord.records import member

pytestmark = pytest.mark.unit

FULL = Message(
    PROTOCOL,
    records=(member("a"), member("b")),
    pings=(1,),
    acks=(2,),
    probes=(Probe("c", 3),),
    leaves=bytes(8),
    buckets=b"\x00\xff",
    entries=bytes(48),
    wanted=bytes(16),
    holding=ViewReport("d1", "d0", ask=True),
)


def test_there_and_back() -> None:
    assert codec.decode(codec.encode(FULL)) == FULL
    assert codec.decode(codec.encode(Message(PROTOCOL))) == Message(PROTOCOL)


def test_others_can_read_it() -> None:
    read = msgpack.unpackb(codec.encode(FULL))
    assert read["v"] == PROTOCOL
    assert codec.decode(msgpack.packb(read)) == FULL


@given(st.binary(max_size=300))
def test_any_bytes_are_a_message_or_refused_in_one_line(data: bytes) -> None:
    try:
        codec.decode(data)
    except codec.CodecError as error:
        assert str(error).startswith("message: ")
        assert "\n" not in str(error)


@given(st.data())
def test_a_message_with_flipped_bytes_is_another_one_or_refused(data: st.DataObject) -> None:
    raw = bytearray(codec.encode(FULL))
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    try:
        codec.decode(bytes(raw))
    except codec.CodecError as error:
        assert len(str(error)) < 300


@pytest.mark.parametrize(
    "data",
    [
        b"\x91" * 60_000,
        b"\x82\xa1v\x01\xa1z" + b"\x91" * 60_000 + b"\x00",
        b"\x82\xa1v\x01\xa1r\xdd\xff\xff\xff\xff",
        b"\xdf\xff\xff\xff\xff",
        bytes(MAX_MESSAGE + 1),
    ],
    ids=["deep", "deep in an unknown field", "long list", "long map", "large"],
)
def test_hostile_bytes(data: bytes) -> None:
    with pytest.raises(codec.CodecError):
        codec.decode(data)


@pytest.mark.parametrize(
    "fields",
    [
        {"v": "1"},
        {"v": 1, "r": "x"},
        {"v": 1, "r": [["a b", 1, 1, "member", "", b"", b""]]},
        {"v": 1, "r": [["a", -1, 1, "member", "", b"", b""]]},
        {"v": 1, "r": [["a", 2**32, 1, "member", "", b"", b""]]},
        {"v": 1, "r": [["a", 1, 1, "member", "", bytes(20_000), b""]]},
        {"v": 1, "d": bytes(12)},
        {"v": 1, "d": bytes(24)},
        {"v": 1, "e": bytes(25)},
        {"v": 1, "w": bytes(9)},
        {"v": 1, "p": [1] * 17},
        {"v": 1, "h": ["D!"]},
        {"r": []},
        [],
    ],
)
def test_wrong_types_and_ranges(fields: object) -> None:
    with pytest.raises(codec.CodecError, match="message"):
        codec.decode(msgspec.msgpack.encode(fields))


def test_neighbouring_versions_are_understood_and_others_are_not() -> None:
    newer = {"v": PROTOCOL + 1, "p": [7], "new": {"deep": [1, [2]]}}
    assert codec.decode(msgspec.msgpack.encode(newer)).pings == (7,)
    older = {"v": PROTOCOL - 1, "a": [7]}
    assert codec.decode(msgspec.msgpack.encode(older)).acks == (7,)
    with pytest.raises(codec.CodecError, match=r"protocol: expected 0 to 2, got 3"):
        codec.decode(msgspec.msgpack.encode({"v": PROTOCOL + 2}))


def test_records_of_a_newer_version_may_have_more_fields() -> None:
    longer = [*msgspec.structs.astuple(member("a")), "more", 5]
    message = codec.decode(msgspec.msgpack.encode({"v": PROTOCOL + 1, "r": [longer]}))
    assert message.records == (member("a"),)


def test_what_does_not_fit_is_not_encoded() -> None:
    big = msgspec.structs.replace(member("a"), payload=bytes(16_000))
    with pytest.raises(codec.CodecError, match="at most"):
        codec.encode(Message(PROTOCOL, records=(big,) * 5))


def test_signatures_cover_everything() -> None:
    one = member("a")
    changed = [
        msgspec.structs.replace(one, **change)
        for change in (
            {"writer": "b"},
            {"incarnation": 2},
            {"version": 2},
            {"kind": "links"},
            {"key": "k"},
            {"payload": b"x"},
        )
    ]
    assert len({codec.signed_bytes(other) for other in [one, *changed]}) == 7
