"""What netlink says, whatever it contains."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostcc.system.netlink import RefusedError, attributes, dump, get, messages

pytestmark = pytest.mark.unit


@given(st.dictionaries(st.integers(0, 0x3FFF), st.binary(max_size=40), max_size=8))
def test_what_was_written_is_read(rows: dict[int, bytes]) -> None:
    data = b"".join(
        struct.pack("=HH", 4 + len(body), kind | 0x8000) + body + b"\0" * (-len(body) % 4)
        for kind, body in rows.items()
    )
    assert attributes(data) == rows


@given(st.binary(max_size=200))
def test_anything_else_does_no_harm(data: bytes) -> None:
    assert all(body in data for body in attributes(data).values())


@given(st.lists(st.tuples(st.integers(0, 0xFFFF), st.binary(max_size=40)), max_size=8))
def test_messages_are_told_apart(rows: list[tuple[int, bytes]]) -> None:
    data = b"".join(
        struct.pack("=IHHII", 16 + len(body), kind, 2, 1, 7) + body + b"\0" * (-len(body) % 4)
        for kind, body in rows
    )
    assert messages(data) == [(kind, 2, body) for kind, body in rows]


@given(st.binary(max_size=200))
def test_no_message_ends_outside(data: bytes) -> None:
    assert sum(16 + len(body) for _, _, body in messages(data)) <= len(data)


class Kernel:
    """A socket that answers the same to every question."""

    def __init__(self, *answers: bytes) -> None:
        self.answers, self.asked = answers, 0

    def __call__(self, *_: object) -> Kernel:
        self.left = list(self.answers)
        return self

    def __enter__(self) -> Kernel:
        return self

    def __exit__(self, *_: object) -> None: ...

    def settimeout(self, _: float) -> None: ...

    def send(self, _: bytes) -> None:
        self.asked += 1

    def recv(self, _: int) -> bytes:
        return self.left.pop(0)


def message(kind: int, body: bytes, flags: int = 2) -> bytes:
    return struct.pack("=IHHII", 16 + len(body), kind, flags, 1, 7) + body


def test_an_answer_of_several_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = message(16, b"one.") + message(16, b"two."), message(16, b"last"), message(3, bytes(4))
    monkeypatch.setattr("socket.socket", Kernel(*parts))
    assert dump(18, bytes(16)) == [b"one.", b"two.", b"last"]


def test_what_changed_meanwhile_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = Kernel(message(16, b"half", 0x12), message(3, bytes(4), 0x12))
    monkeypatch.setattr("socket.socket", kernel)
    with pytest.raises(OSError, match="changes all the time"):
        dump(18, bytes(16))
    assert kernel.asked > 1


def test_what_the_kernel_refuses_has_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.socket", Kernel(message(2, struct.pack("=i", -95))))
    with pytest.raises(RefusedError, match="not supported") as caught:
        dump(18, bytes(16))
    assert caught.value.errno == 95


def test_one_object_and_its_acknowledgement(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.socket", Kernel(message(24, b"it."), message(2, bytes(4))))
    assert get(26, bytes(12)) == b"it."


@pytest.mark.parametrize(("number", "text"), [(-2, "No such file"), (0, "acknowledgement")])
def test_an_object_that_is_not_there(
    monkeypatch: pytest.MonkeyPatch, number: int, text: str
) -> None:
    monkeypatch.setattr("socket.socket", Kernel(message(2, struct.pack("=i", number))))
    with pytest.raises(OSError, match=text) as caught:
        get(26, bytes(12))
    assert isinstance(caught.value, RefusedError) == bool(number)
