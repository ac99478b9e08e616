"""Errors name the place, the whole expectation and what was found, in one line."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostcc.errors import InputError, one_line
from hostcc.system.validate import convert
from tests.refusals import is_one_line, refusal_of


class Inner(msgspec.Struct, forbid_unknown_fields=True):
    weight: Annotated[float, msgspec.Meta(ge=0.5, le=2)] = 1.0
    ports: tuple[Annotated[int, msgspec.Meta(ge=1, le=9)], ...] = ()
    kind: Literal["a", "b"] = "a"
    size: Annotated[int, msgspec.Meta(ge=1)] | None = None


class Outer(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    inner: tuple[Inner, ...] = ()
    share: dict[str, Annotated[float, msgspec.Meta(ge=0, le=1)]] = {}


class Ping(msgspec.Struct, forbid_unknown_fields=True, tag_field="op", tag="ping"):
    loud: bool = False


class Pong(msgspec.Struct, forbid_unknown_fields=True, tag_field="op", tag="pong"):
    count: int = 0


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({}, "F: name: expected a value, got none"),
        ({"name": 3}, "F: name: expected text, got 3"),
        (
            {"name": "x", "inner": [{}, {"weight": 3}]},
            "F: inner[1].weight: expected a number from 0.5 to 2, got 3",
        ),
        (
            {"name": "x", "inner": [{"weight": True}]},
            "F: inner[0].weight: expected a number from 0.5 to 2, got true",
        ),
        (
            {"name": "x", "inner": [{"ports": [1, 10]}]},
            "F: inner[0].ports[1]: expected a whole number from 1 to 9, got 10",
        ),
        (
            {"name": "x", "inner": [{"kind": "c"}]},
            'F: inner[0].kind: expected one of "a", "b", got "c"',
        ),
        (
            {"name": "x", "inner": [{"size": 0}]},
            "F: inner[0].size: expected a whole number of at least 1, got 0",
        ),
        (
            {"name": "x", "inner": [{"wieght": 1}]},
            "F: inner[0].wieght: expected one of the keys kind, ports, size, weight, got an "  # noqa: ISC004
            "unknown key; did you mean weight?",
        ),
        ({"name": "x", "inner": 3}, "F: inner: expected a list (a table each), got 3"),
        ([], "F: expected a table, got a list of 0"),
        (
            {"name": "x", "inner": [{"weight": float("nan")}]},
            "F: inner[0].weight: expected a finite number, got nan",
        ),
        (
            {"name": "x", "inner": [{"weight": 10**400}]},
            "F: inner[0].weight: expected a number from 0.5 to 2, got a huge number",
        ),
    ],
)
def test_message(data: object, message: str) -> None:
    with pytest.raises(InputError) as caught:
        convert(data, Outer, "F")
    assert str(caught.value) == message


def test_tagged_union_names_the_keys_of_the_chosen_member() -> None:
    with pytest.raises(InputError, match="expected one of the keys count, op, got"):
        convert({"op": "pong", "loud": True}, Ping | Pong, "F")  # type: ignore[arg-type]


def test_control_characters_cannot_break_the_line() -> None:
    assert one_line("a\nb\x1b[31m\u2028c") == "a\\nb\\x1b[31m\\u2028c"


def test_values_come_through() -> None:
    outer = convert({"name": "x", "inner": [{"weight": 2}], "share": {"q": 0.5}}, Outer, "F")
    assert outer.inner[0].weight == 2.0
    assert outer.share == {"q": 0.5}


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["name", "inner", "weight", "ports", "share", "op"])
            | st.text(max_size=5),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(anything)
def test_any_data_converts_or_is_refused_in_one_line(data: Any) -> None:
    for kind in (Outer, Inner, Ping | Pong):
        line = refusal_of(convert, data, kind, "F")
        assert not line or line.startswith("F: ")
        assert is_one_line(line)
