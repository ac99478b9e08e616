"""What the lab writes as TOML reads back the same."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostcc.lab.toml import dump

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
scalars = text | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False)
tables = st.recursive(
    st.dictionaries(text, scalars | st.lists(scalars, max_size=3), max_size=3),
    lambda inner: st.dictionaries(text, scalars | inner | st.lists(inner, max_size=2), max_size=3),
    max_leaves=8,
)


@given(tables)
def test_round_trip(document: dict[str, Any]) -> None:
    assert tomllib.loads(dump(document)) == document


def test_other_types_are_refused() -> None:
    with pytest.raises(TypeError, match="NoneType"):
        dump({"a": None})
