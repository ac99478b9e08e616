"""What a record may contain, and which measurements are believed."""

from __future__ import annotations

import hashlib
import zlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostcc.coord.core import payloads
from hostcc.coord.core.message import MAX_PAYLOAD
from hostcc.coord.core.payloads import (
    FlowEntry,
    Flows,
    Links,
    PathEntry,
    Paths,
    Profile,
    ProfilingClaim,
)
from tests.coord.records import member, record

pytestmark = pytest.mark.unit

GOOD = Profile(1.0, 0.5, 1e15, 8.0, 1.4, 0.4, 2.0, 1.5, (("b", 1e9),))


def test_there_and_back() -> None:
    flows = Flows((FlowEntry("f1", "b", 1e9),))
    paths = Paths((PathEntry("p0", ("t0-s0", "s0-t1"), (40_000,)),))
    links = Links((("t0-s0", 1.25e9),))
    for kind, key, content in (
        ("profile", "job", GOOD),
        ("flows", "job", flows),
        ("paths", "b", paths),
        ("links", "", links),
        ("waiting", "job", ProfilingClaim(turn=True)),
        ("waiting", "job", ProfilingClaim(turn=False, again=True)),
    ):
        assert payloads.decode(record("a", kind, key, content)) == content
    assert payloads.decode(member("a")) == payloads.Member("a:1", 1)


def test_a_profile_of_an_earlier_version_is_no_guess() -> None:
    before = msgspec.msgpack.encode(list(msgspec.structs.astuple(GOOD))[:-1])
    assert payloads.decode(record("a", "profile", "job", before)) == GOOD
    guess = msgspec.structs.replace(GOOD, provisional=True)
    assert payloads.decode(record("a", "profile", "job", guess)) == guess


@pytest.mark.parametrize(
    "change",
    [
        {"compute_s": -1.0},
        {"compute_s": 1e6},
        {"compute_s": float("nan")},
        {"comm_start_s": float("inf")},
        {"work": 1e30},
        {"work": 8 * 4e16 * 1.5},
        {"work": -1.0},
        {"work": float("nan")},
        {"gpus": 65.0},
        {"gpus": float("nan")},
        {"weight": 101.0},
        {"weight": 0.0},
        {"slowdown": 11.0},
        {"slowdown": 0.5},
        {"to": (("b", float("nan")),)},
        {"to": (("b", 1e30),)},
        {"to": (("b", 1.0), ("b", 2.0))},
        {"to": (("b c", 1.0),)},
        {"to": tuple((f"h{i}", 1.0) for i in range(193))},
    ],
)
def test_measurements_out_of_range(change: dict[str, object]) -> None:
    wrong = msgspec.structs.replace(GOOD, **change)
    with pytest.raises(payloads.PayloadError, match="profile job") as error:
        payloads.decode(record("a", "profile", "job", wrong))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("kind", "key", "payload"),
    [
        ("member", "", b""),
        ("member", "x", payloads.encode(payloads.Member("", 1))),
        ("profile", "", payloads.encode(GOOD)),
        ("profile", "job", b"\x91" * 16_000),
        ("profile", "job", b"\xdd\xff\xff\xff\xff"),
        ("links", "", payloads.encode(Links((("l", 1e13),)))),
        ("links", "", payloads.encode(Links((("l", 1.0), ("l", 2.0))))),
        ("links", "", payloads.encode(Links((("l", float("nan")),)))),
        ("accuse", "b", b"\x91\xa1x"),
        ("paths", "b", payloads.encode(Paths((PathEntry("p", ("l",) * 13),)))),
        ("paths", "b", msgspec.msgpack.encode(Paths(()))),
        ("paths", "b", payloads.encode(Paths(()))[:-1]),
        ("paths", "b", payloads.encode(Paths(())) + b"x"),
        ("paths", "b", zlib.compress(b"\x91" * payloads.MAX_PLAIN)),
        ("paths", "b", zlib.compress(bytes(16 << 20))),
        ("waiting", "", payloads.encode(ProfilingClaim(turn=True))),
        ("waiting", "job", b"\x90"),
        ("waiting", "job", b"\x91\x01"),
    ],
)
def test_content_that_no_kind_allows(kind: str, key: str, payload: bytes) -> None:
    with pytest.raises(payloads.PayloadError):
        payloads.decode(record("a", kind, key, payload))


@given(st.sampled_from(sorted(payloads.KINDS)), st.binary(max_size=100))
def test_any_content_is_decoded_or_refused(kind: str, payload: bytes) -> None:
    key = "" if kind in ("member", "links") else "k"
    try:
        payloads.decode(record("a", kind, key, payload))
    except payloads.PayloadError as error:
        assert len(str(error)) < 400


@given(st.binary(max_size=200))
def test_any_packed_paths_are_decoded_or_refused(plain: bytes) -> None:
    try:
        payloads.decode(record("a", "paths", "b", zlib.compress(plain)))
    except payloads.PayloadError as error:
        assert len(str(error)) < 400


def test_links_of_many_paths_take_few_bytes() -> None:
    def way(spine: int) -> PathEntry:
        links = (f"10.0.0.1>10.1.{spine}.1", f"10.1.{spine}.1>10.2.{spine}.1", "10.2.0.1>10.0.4.1")
        return PathEntry(f"{spine:08x}", links, (33_000 + spine,))

    table = Paths(tuple(way(spine) for spine in range(payloads.MAX_PATHS)))
    packed = payloads.encode(table)
    assert len(packed) < len(msgspec.msgpack.encode(table)) / 2
    assert payloads.decode(record("a", "paths", "b", packed)) == table


def test_more_than_this_version_knows_of_a_waiting_job_is_passed_over() -> None:
    assert payloads.decode(record("a", "waiting", "job", b"\x93\xc3\xc2\x07")) == ProfilingClaim(
        turn=True
    )


def test_kinds_of_a_newer_version_mean_nothing() -> None:
    assert payloads.decode(record("a", "weather", "x", b"anything")) is None


def test_a_withdrawn_record_has_no_content() -> None:
    assert payloads.decode(record("a", "profile", "job", b"")) is None


def test_the_largest_of_each_kind_fits_into_a_record() -> None:
    long = [f"{index:03}{'n' * 61}" for index in range(256)]
    flows = tuple(
        FlowEntry(name, long[0], 1e18, True, "tcp", 60_000, 60_000, long[0])
        for name in long[: payloads.MAX_FLOWS]
    )
    to = tuple((name, 1e18) for name in long[: payloads.MAX_DESTINATIONS])
    links = tuple((name + 32 * "l", 1e12) for name in long[: payloads.MAX_LINKS])
    ways = tuple(
        PathEntry(name, tuple(f"{name[:3]}{hop:02}{91 * 'l'}" for hop in range(payloads.MAX_HOPS)))
        for name in long[: payloads.MAX_PATHS]
    )
    sizes = [
        len(payloads.encode(content))
        for content in (
            Flows(flows),
            msgspec.structs.replace(GOOD, to=to),
            Links(links),
            Paths(ways),
        )
    ]
    assert max(sizes) <= MAX_PAYLOAD


def test_more_than_a_record_holds_is_refused() -> None:
    def hop(path: int, number: int) -> str:
        return hashlib.sha256(f"{path} {number}".encode()).hexdigest()

    wide = Paths(
        tuple(
            PathEntry(f"p{path}", tuple(hop(path, number) for number in range(payloads.MAX_HOPS)))
            for path in range(payloads.MAX_PATHS)
        )
    )
    with pytest.raises(payloads.PayloadError, match="at most 16384 bytes"):
        payloads.decode(record("a", "paths", "b", wide))
