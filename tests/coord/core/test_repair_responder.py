"""What one peer asks for takes nothing from the others, nor from what is new."""

from __future__ import annotations

import pytest

from hostcc.coord.core import summary
from hostcc.coord.core.message import HASH_BYTES, Message
from hostcc.coord.core.node import Node
from hostcc.coord.core.payloads import Links
from hostcc.coord.core.settings import Settings
from tests.coord.records import member, node, saying

pytestmark = pytest.mark.unit

SETTINGS = Settings(answer_bytes_per_s=1000.0, answer_burst_bytes=40_000.0)


def full() -> Node:
    """A member with some 20 kB of records, that knows another one."""
    one = node("a", SETTINGS)
    one.begin()
    for index in range(200):
        one.publish("weather", f"k{index}", Links(()))
    one.receive("b", saying(member("b")), 0.0)
    return one


def asked(one: Node, peer: str) -> int:
    """How many records a peer gets that asks for all of them."""
    slots = summary.pack_slots(held.slot for held in one.store.of("a").values())
    answers = one.receive(peer, Message(1, wanted=slots), 1.0)
    return sum(len(answer.payload.records) for answer in answers)


def test_one_peer_gets_its_share_and_the_next_one_too() -> None:
    one = full()
    first = [asked(one, "greedy") for _ in range(20)]
    assert 0 < first[0] < 201
    assert not any(first[1:])
    assert asked(one, "b") == first[0]


def test_news_is_told_whatever_others_ask_for() -> None:
    one = full()
    for number in range(100):
        asked(one, f"greedy{number}")
    assert asked(one, "late") == 0
    one.publish("links", "", Links(()))
    said = [
        record.kind
        for at in range(5)
        for outgoing in one.tick(1.0 + 0.2 * at)
        for record in outgoing.payload.records
    ]
    assert "links" in said


def test_comparisons_of_one_peer_are_bounded_and_leave_some_for_others() -> None:
    one = full()
    asking = Message(1, leaves=bytes(HASH_BYTES))
    answered = [bool(one.receive("greedy", asking, 1.0)) for _ in range(100)]
    assert 0 < sum(answered) < 50
    assert one.receive("b", asking, 1.0)
