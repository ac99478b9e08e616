"""Notes of turns: bounded and typed, whatever comes."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostcc.coord.core.message import MAX_NOTE
from hostcc.daemon.gates.gate_notes import (
    MAX_MS,
    GateNote,
    Over,
    Sending,
    Waiting,
    decode,
    encode,
    milliseconds,
)
from hostcc.errors import InputError

pytestmark = pytest.mark.unit

LONG = "j" * 64


@pytest.mark.parametrize(
    "note",
    [Sending(LONG, MAX_MS, 0), Waiting(LONG, MAX_MS, MAX_MS), Over(LONG, 5), Sending("a", 0, 1)],
)
def test_a_note_comes_as_it_was_sent(note: GateNote) -> None:
    data = encode(note)
    assert len(data) <= MAX_NOTE
    assert decode(data) == note


@pytest.mark.parametrize(
    "wrong",
    [
        ["s", "a"],
        ["s", "a", -1, 0],
        ["s", "a", MAX_MS + 1, 0],
        ["s", "a", 1.5, 0],
        ["s", "", 1, 0],
        ["s", LONG + "j", 1, 0],
        ["s", "a b", 1, 0],
        ["w", "a", 1, MAX_MS + 1],
        ["x", "a"],
        ["o", 5, 0],
        {"job": "a"},
        [],
        None,
    ],
)
def test_anything_else_is_refused(wrong: object) -> None:
    with pytest.raises(InputError, match="gate: expected a note"):
        decode(msgspec.msgpack.encode(wrong))


@given(st.binary(max_size=80))
def test_noise_is_refused_or_a_note(data: bytes) -> None:
    try:
        decode(data)
    except InputError:
        return


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_times_fit(seconds: float) -> None:
    assert 0 <= milliseconds(seconds) <= MAX_MS
