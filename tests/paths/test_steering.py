"""Messages of peers are refused in one line."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostcc.errors import InputError
from hostcc.paths import steering
from hostcc.paths.steering_messages import FlowKey, Message, Prepare, Ready, Refusal, Release

pytestmark = pytest.mark.unit

FLOW = FlowKey("fd00:4843:100::2", "fd00:4843:101::2", 40000, 5301)


@pytest.mark.parametrize(
    "message",
    [Prepare(1 << 62, FLOW, 61000), Release(3, FLOW), Ready(9), Refusal(9, "no")],
)
def test_good_messages_are_small(message: Message) -> None:
    data = msgspec.msgpack.encode(message)
    assert steering.decode(data) == message
    assert len(data) < 150


@pytest.mark.parametrize(
    "message",
    [
        ["p", 1, [FLOW.src, FLOW.dst, 0, 80], 61000],
        ["p", 1, [FLOW.src, FLOW.dst, 1, 80], 70000],
        ["p", -1, [FLOW.src, FLOW.dst, 1, 80], 61000],
        ["p", (1 << 62) + 1, [FLOW.src, FLOW.dst, 1, 80], 61000],
        ["p", 1, ["me", FLOW.dst, 1, 80], 61000],
        ["p", 1, ["fd00:0:0::1", FLOW.dst, 1, 80], 61000],
        ["p", 1, ["198.18.0.1", FLOW.dst, 1, 80], 61000],
        ["x", 1, [FLOW.src, "x", 1, 80]],
        ["n", 1, "w" * 200],
        ["q", 1],
        ["r"],
        7,
    ],
)
def test_bad_messages(message: object) -> None:
    with pytest.raises(InputError) as error:
        steering.decode(msgspec.msgpack.encode(message))
    assert "\n" not in str(error.value)


@given(st.binary(max_size=600))
def test_any_bytes(data: bytes) -> None:
    try:
        steering.decode(data)
    except InputError as error:
        assert "\n" not in str(error)
