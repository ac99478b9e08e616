"""What records cost whom: saying old or forged ones silences nobody."""

from __future__ import annotations

from random import Random

import pytest

from hostcc.coord.core.message import MAX_RECORDS, Record
from hostcc.coord.core.node import Node
from hostcc.coord.core.offenders import RELAY_BURST
from hostcc.coord.core.payloads import Content, HostCertificate, RevokedCertificates
from hostcc.coord.core.record_checker import RecordChecker
from hostcc.coord.core.settings import Settings
from hostcc.coord.core.signing import SimulatedSigner, SimulatedVerifier
from tests.coord.records import accusation, member, profile, record, saying

pytestmark = pytest.mark.unit

TIGHT = Settings(writer_per_s=1.0, writer_burst=10)


class Doubtful(SimulatedVerifier):
    """Accepts no certificate and no list."""

    def learn_record(self, _writer: str, _kind: str, _raw: bytes) -> str:
        return "forged"


def listener(verifier: SimulatedVerifier | None = None) -> Node:
    one = Node(
        "a",
        "a:1",
        signer=SimulatedSigner("a"),
        checker=RecordChecker(verifier or SimulatedVerifier()),
        rng=Random(1),
        settings=TIGHT,
    )
    one.begin()
    for name in ("b", "c"):
        one.receive("b", saying(member(name, 5, birth=5)), 0.0)
    return one


def still_heard(one: Node, replayed: list[Record]) -> bool:
    """Whether c's news gets through although b says old records of c again and again."""
    for _ in range(10):
        for old in replayed:
            one.receive("b", saying(old), 1.0)
    fresh = record("c", "profile", "new", profile("c", "new").payload, incarnation=9, version=99)
    one.receive("b", saying(fresh), 1.0)
    return one.store.get("c", ("profile", "new")) is not None


def test_records_of_an_earlier_life() -> None:
    assert still_heard(listener(), [profile("c", f"job{i}", version=i + 2) for i in range(20)])


def test_refuted_accusations() -> None:
    one = listener()
    old = [accusation("c", "b", accused=1, version=v) for v in range(10, 30)]
    current = [
        record("c", "accuse", "b", item.payload, incarnation=5, version=item.version)
        for item in old
    ]
    assert still_heard(one, current)


def test_what_was_dropped_for_its_age_is_answered_with_what_is_remembered() -> None:
    one = listener()
    payload = profile("c", "job").payload
    said = [
        record("c", "profile", f"job{i}", payload, incarnation=5, version=i + 1) for i in range(3)
    ]
    gone = [record("c", "profile", f"job{i}", b"", incarnation=5, version=i + 11) for i in range(3)]
    for item in (*said, *gone):
        one.receive("c", saying(item), 0.0)
    at = 0.0
    while one.store.of("c").keys() != {("member", "")}:
        at += 0.4
        assert at < 2 * TIGHT.tombstone_s
        one.tick(at)
    (answer,) = one.receive("b", saying(said[0]), at)
    assert answer.payload.records == (gone[0],)
    assert still_heard(one, said)


@pytest.mark.parametrize(
    ("kind", "key", "content"),
    [
        ("certificate", "", HostCertificate(b"x")),
        ("revoked", "authority", RevokedCertificates(b"x", 1)),
        ("certificate", "", b"\xc1"),  # which msgpack never has
        ("revoked", "authority", b"\xc1"),
    ],
)
def test_forged_certificates(kind: str, key: str, content: Content | bytes) -> None:
    forged = record("c", kind, key, content, incarnation=9, version=9, signer="b")
    one = listener(Doubtful())
    assert still_heard(one, [forged] * 20)
    assert [event.what for event in one.take_events()] == ["stranger"]


def test_made_up_names() -> None:
    one = listener(SimulatedVerifier(frozenset("abc")))
    payload = profile("b", "job").payload
    news = [
        record("b", "profile", f"job{i}", payload, incarnation=5, version=i + 2) for i in range(30)
    ]
    one.receive("b", saying(*news[:15]), 1.0)
    heard = len(one.store.of("b"))
    for message in range(20):
        made_up = [member(f"name{message}-{i}") for i in range(MAX_RECORDS)]
        one.receive("b", saying(*made_up), 1.0)
    one.receive("b", saying(*news[15:]), 1.0)
    assert len(one.store.of("b")) == heard  # its allowance is used up, whomever it names meanwhile
    assert len(one.take_events()) <= RELAY_BURST
