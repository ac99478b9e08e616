"""Attributes of netlink messages, whatever they contain."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostcc.paths.netlink import attributes

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
