"""The record and its JSON form."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.record import Column, Record, Spread, Verdict, decode, encode, spread

VALUES = st.lists(st.none() | st.floats(0, 1e9), min_size=1, max_size=9)


@given(VALUES)
def test_never_is_more_than_any_number(values: list[float | None]) -> None:
    found = spread(values)
    numbers = [value for value in values if value is not None]
    assert found.least == (min(numbers) if numbers else None)
    assert found.greatest == (None if None in values else max(numbers))
    if len(numbers) <= len(values) // 2 and len(values) % 2:
        assert found.median is None


@given(VALUES, st.text(max_size=20))
def test_record_survives_json(values: list[float | None], words: str) -> None:
    record = Record(
        benchmark="x",
        title=words,
        parameters={"runs": len(values)},
        columns=[Column("a", words)],
        rows=[{"a": spread(values), "b": words, "c": 1, "d": 1.5, "e": None}],
        goals=[Verdict("s", words, spread(values), 0, False)],
    )
    data = encode(record)
    assert decode(data) == record
    assert json.loads(data)["schema"] == "hostcc-bench"


@pytest.mark.parametrize("data", [b"{}", b"[]", b'{"schema": "hostcc-bench", "version": 2}', b"x"])
def test_anything_else_is_refused(data: bytes) -> None:
    with pytest.raises((ValueError, msgspec.DecodeError)):
        decode(data)


def test_met_needs_every_goal_and_no_failure() -> None:
    def record(met: bool, failures: list[str]) -> Record:
        return Record(
            benchmark="x",
            title="",
            parameters={},
            columns=[],
            rows=[],
            goals=[Verdict("s", "g", Spread(1, 1, 1, (1,)), 1, met)],
            failures=failures,
        )

    assert record(True, []).met
    assert not record(False, []).met
    assert not record(True, ["case"]).met
