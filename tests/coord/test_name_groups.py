"""Groups of names that belong together."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostcc.coord.name_groups import NameGroups

pytestmark = pytest.mark.unit


def grouped(sets: list[list[str]]) -> set[frozenset[str]]:
    groups = NameGroups()
    for names in sets:
        groups.join(names)
    found: dict[int, set[str]] = {}
    for name, number in groups.of.items():
        found.setdefault(number, set()).add(name)
    return set(map(frozenset, found.values()))


@given(st.lists(st.lists(st.sampled_from("abcdefgh"), min_size=1, unique=True)))
def test_names_that_were_joined_are_in_one_group_and_no_others(sets: list[list[str]]) -> None:
    expected: set[frozenset[str]] = set()
    for names in sets:
        near = {one for one in expected if one & set(names)}
        expected = (expected - near) | {frozenset(names).union(*near)}
    assert grouped(sets) == expected


def test_joining_nothing_does_nothing() -> None:
    assert grouped([[], ["a"], [], ["a"]]) == {frozenset("a")}
