"""Messages as earlier versions wrote them, and what those versions make of ours."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from hostcc.coord.core import codec, payloads
from hostcc.coord.core.message import Record
from hostcc.coord.core.payloads import RULES, Rules
from hostcc.coord.core.record_checker import RecordChecker
from hostcc.coord.core.settings import Settings
from hostcc.coord.core.store import PutResult, Store
from hostcc.coord.keys import identity
from hostcc.coord.keys.identity import Member
from tests.coord.records import deliver, node, rounds

pytestmark = pytest.mark.unit

STORED = json.loads((Path(__file__).parent / "golden" / "message-0.1.0.json").read_text())
DATA = bytes.fromhex(STORED["message"])


class FirstProfile(msgspec.Struct, frozen=True, array_like=True):
    """The record of a profile as 0.1.0 reads it."""

    compute_s: float
    comm_start_s: float
    work: float
    gpus: float
    period_s: float = 0.0
    comm_s: float = 0.0
    weight: float = 1.0
    slowdown: float = 1.0
    to: tuple[tuple[str, float], ...] = ()
    provisional: bool = False


class Recorded:
    """Believes the member whose public file is stored beside the message."""

    def __init__(self) -> None:
        self._member: Member = identity.parse_public(STORED["public"].encode(), "stored")

    def knows(self, writer: str) -> bool:
        return writer == self._member.name

    def verify(self, writer: str, data: bytes, signature: bytes) -> bool:
        return self.knows(writer) and self._member.keys[0].verifies(data, signature)

    def learn_record(self, _writer: str, _kind: str, _raw: bytes) -> str:
        return ""


def test_a_message_of_0_1_0_is_understood_whole() -> None:
    message = codec.decode(DATA)
    store, checker = Store(Settings()), RecordChecker(Recorded())
    fates = {
        (record.kind, record.key): store.put(checker.check(record), 0.0)
        for record in message.records
    }
    assert fates.pop(("accuse", "node9")) is PutResult.VOID  # nobody knows the accused
    assert set(fates.values()) == {PutResult.NEW}
    later = {RULES, payloads.CERTIFICATE, payloads.REVOKED}
    assert {kind for kind, _ in fates} == set(payloads.KINDS) - {"accuse"} - later
    assert all(held.content or held.withdrawn for held in store.of("node2").values())
    assert message.holding is not None
    assert (message.holding.held, message.holding.ask) == ("ab" * 16, True)
    assert (message.pings, message.acks, len(message.probes)) == ((5,), (6,), 1)
    assert [note.topic for note in message.notes] == ["steer"]


def test_0_1_0_reads_assumed_work_as_unknown() -> None:
    told = payloads.Profile(0.1, 0.1, 0.0, 8.0, 0.25, weight=2.0, assumed_flop_per_s=1e15)
    read = msgspec.msgpack.decode(payloads.encode(told), type=FirstProfile)
    assert read == FirstProfile(0.1, 0.1, 0.0, 8.0, 0.25, weight=2.0)
    assert payloads.decode(Record("h", 1, 1, "profile", "a", payloads.encode(told), b"")) == told


def test_what_is_said_alike_is_the_same_bytes() -> None:
    """So an agent of 0.1.0 reads what this one writes."""
    message = codec.decode(DATA)
    assert codec.encode(message) == DATA
    for record in message.records:
        content = payloads.decode(record)
        assert content is None or payloads.encode(content) == record.payload


def test_a_member_that_does_not_know_the_kind_keeps_and_passes_on_what_rules_say(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As 0.1.0 does: it decodes the same message type, and knows all kinds but this one."""
    rules = Rules(1, (("plan.levels", "4"),))
    new, other = node("new"), node("other")
    new.publish(RULES, "", rules)
    nodes = {"new": new, "old": node("old")}
    new.add_contact("old")
    with monkeypatch.context() as before:
        before.delitem(payloads._decoders, RULES)
        now = rounds(nodes, 40)
    held = nodes["old"].store.get("new", (RULES, ""))
    assert held is not None
    assert (held.content, held.record.payload) == (None, payloads.encode(rules))
    nodes = {"old": nodes["old"], "other": other}
    other.add_contact("old")
    now = rounds(nodes, 40, now)
    deliver(nodes, "old", nodes["old"].tick(now), now)
    passed_on = other.store.get("new", (RULES, ""))
    assert passed_on is not None
    assert passed_on.content == rules


def test_no_signature_of_the_message_is_of_other_bytes() -> None:
    record: Record = codec.decode(DATA).records[1]
    forged = msgspec.structs.replace(record, version=record.version + 1)
    believed = Recorded()
    assert believed.verify("node2", codec.signed_bytes(record), record.signature)
    assert not believed.verify("node2", codec.signed_bytes(forged), forged.signature)
