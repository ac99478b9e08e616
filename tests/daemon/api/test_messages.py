"""Any line is a request or is refused in one line."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostcc import client
from hostcc.daemon.api import messages
from hostcc.daemon.api.messages import Flows, Register, Status, Unfair, decode
from hostcc.mltcp.params import Mode
from tests.refusals import is_one_line, refusal_of


def line(**fields: object) -> bytes:
    return json.dumps(fields).encode()


def test_requests() -> None:
    assert decode(line(op="status")) == Status()
    assert decode(line(v=1, op="flows", job="a", limit=5)) == Flows(job="a", limit=5)
    assert decode(line(op="register", job="a", weight=2)) == Register(job="a", weight=2)
    assert decode(line(op="unfair", mode="static", weights={"a": 2})) == Unfair(
        mode=Mode.STATIC, weights={"a": 2}
    )


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"", "request: expected one line of JSON"),
        (b"\xff", "request: expected one line of JSON"),
        (b"[" * 60000, "request: expected "),
        (b"[]", 'request: expected an object with an "op"'),
        (b"{}", 'request: expected an object with an "op"'),
        (line(op=3), 'request: expected an object with an "op"'),
        (line(op="reboot"), "request: op: expected one of status, jobs, profile, flows,"),
        (line(op="status", v=2), 'request: v: expected one of "1", got 2'),
        (line(op="status", x=2), "request: x: expected one of the keys op, v, got"),
        (line(op="flows", limit=0), "request: limit: expected a whole number from 1 to 50000"),
        (line(op="register"), "request: job: expected a value, got none"),
        (line(op="register", job="a/b"), "request: job: expected 1 to 64 characters"),
        (line(op="register", job="a", weight=1e9), "request: weight: expected a number from 0.01"),
        (line(op="register", job="a", bytes_per_iteration=2**61), "request: bytes_per_iteration"),
        (line(op="unfair", mode="x"), 'request: mode: expected one of "off", "mltcp", "static"'),
        (line(op="unfair", mode="static", weights={"a": 0}), "request: weights"),
        (line(op="unfair", mode="static", weights={"/": 1}), "request: weights"),
        (line(op="unfair", mode="off", weights={"a": 1}), "request: weights: expected none"),
    ],
)
def test_refusals(raw: bytes, words: str) -> None:
    message = refusal_of(decode, raw)
    assert message.startswith(words)
    assert is_one_line(message)


@given(st.binary(max_size=200))
def test_any_bytes(raw: bytes) -> None:
    assert is_one_line(refusal_of(decode, raw))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(
    st.sampled_from(list(messages.OPERATIONS)),
    st.dictionaries(
        st.sampled_from(["job", "weight", "weights", "mode", "limit", "v"]) | st.text(max_size=6),
        json_values,
        max_size=4,
    ),
)
def test_any_fields(op: str, fields: dict[str, object]) -> None:
    message = refusal_of(decode, json.dumps({**fields, "op": op}).encode())
    assert not message or message.startswith("request: ")
    assert is_one_line(message)


def test_an_answer_too_large_to_send_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "MAX_RESPONSE_BYTES", 100)
    answer = msgspec.json.decode(messages.success("x" * 200))
    assert answer["error"]["code"] == "too-large"


def test_client_and_server_agree_on_the_bound() -> None:
    assert client.MAX_RESPONSE_BYTES == messages.MAX_RESPONSE_BYTES
