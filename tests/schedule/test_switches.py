"""Switches are where links follow each other on paths."""

from __future__ import annotations

import pytest

from hostcc.model import Path, PathTable
from hostcc.schedule.switches import switches

pytestmark = pytest.mark.unit


def test_switches_are_where_links_follow_each_other() -> None:
    tables = [
        PathTable("a", "b", (Path("x", ("a>s", "s>b")), Path("y", ("a>t", "t>b")))),
        PathTable("c", "b", (Path("x", ("c>s", "s>b")), Path("z", ()))),
    ]
    assert switches(tables) == [frozenset({"a>s", "c>s", "s>b"}), frozenset({"a>t", "t>b"})]


def test_without_tables_there_are_none() -> None:
    assert switches([]) == []
