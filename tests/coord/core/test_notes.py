"""Small messages beside gossip: bounded, typed, dropped when there is no room."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

from hostcc.coord.core import codec
from hostcc.coord.core.message import MAX_NOTE, MAX_NOTES, PROTOCOL, Message, Note, Outgoing
from hostcc.coord.core.notes import MAX_PEERS, Notes
from hostcc.errors import InputError
from tests.coord.members import make_keys
from tests.coord.services import member
from tests.patience import eventually

pytestmark = [pytest.mark.unit, pytest.mark.asyncio]


class Post:
    def __init__(self) -> None:
        self.sent: list[Outgoing] = []
        self.counters: Counter[str] = Counter()
        self.offences: list[tuple[str, str]] = []
        self.notes = Notes(self.take, lambda: 0.0, self.counters, self.offence)

    def take(self, messages: Iterable[Outgoing], now: float) -> None:
        self.sent += messages

    def offence(self, peer: str, reason: str) -> None:
        self.offences.append((peer, reason))


async def test_notes_of_one_turn_travel_together_and_in_order() -> None:
    post = Post()
    assert post.notes.say("b", "steer", b"1")
    assert post.notes.say("b", "steer", b"2")
    assert post.notes.say("c", "steer", b"3")
    assert post.sent == []
    await asyncio.sleep(0)
    told = {one.peer: [note.data for note in one.payload.notes] for one in post.sent}
    assert told == {"b": [b"1", b"2"], "c": [b"3"]}
    assert all(len(codec.encode(one.payload)) < 150 for one in post.sent)


async def test_what_does_not_fit_is_dropped_and_counted() -> None:
    post = Post()
    assert not post.notes.say("b", "steer", bytes(MAX_NOTE + 1))
    assert all(post.notes.say("b", "steer", b"x") for _ in range(MAX_NOTES))
    assert not post.notes.say("b", "steer", b"x")
    others = [post.notes.say(f"p{n}", "steer", b"x") for n in range(MAX_PEERS)]
    assert others == [True] * (MAX_PEERS - 1) + [False]
    assert post.counters["dropped: note"] == 3
    await asyncio.sleep(0)
    assert post.notes.say("b", "steer", b"x")
    await asyncio.sleep(0)


async def test_notes_go_to_their_topic_and_bad_ones_are_offences() -> None:
    post = Post()
    heard: list[tuple[str, bytes]] = []

    def hear(peer: str, data: bytes) -> None:
        if data == b"bad":
            raise InputError("expected\nsomething else")
        heard.append((peer, data))

    post.notes.listen("steer", hear)
    post.notes.heard("b", (Note("steer", b"1"), Note("other", b"2"), Note("steer", b"bad")))
    assert heard == [("b", b"1")]
    assert post.counters["dropped: note nobody takes"] == 1
    assert [peer for peer, _ in post.offences] == ["b"]
    assert "\n" not in post.offences[0][1]
    post.notes.listen("steer", None)
    post.notes.heard("b", (Note("steer", b"1"),))
    assert len(heard) == 1


async def test_the_codec_refuses_long_notes() -> None:
    data = codec._encoder.encode(Message(PROTOCOL, notes=(Note("steer", bytes(MAX_NOTE + 1)),)))
    with pytest.raises(codec.CodecError, match="256"):
        codec.decode(data)


async def test_members_exchange_notes_over_the_transport(tmp_path: Path) -> None:
    make_keys(tmp_path, ["a", "b"])
    one = member("a", tmp_path / "a")
    await one.start()
    two = member("b", tmp_path / "b", one)
    await two.start()
    heard: list[tuple[str, bytes]] = []
    try:
        one.notes.listen("steer", lambda peer, data: heard.append((peer, data)))
        await eventually(lambda: two.node.members.others == ["a"])
        two.notes.say("a", "steer", b"hello")
        await eventually(lambda: heard == [("b", b"hello")])
    finally:
        await two.stop()
        await one.stop()
