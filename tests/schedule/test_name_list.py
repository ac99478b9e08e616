"""Names by number."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostcc.schedule import name_list
from hostcc.schedule.name_list import NameList, places

pytestmark = pytest.mark.unit


@given(st.data())
def test_places_are_those_of_a_dictionary(data: st.DataObject) -> None:
    old = data.draw(st.lists(st.integers(0, 60), unique=True, max_size=50))
    kept = [name for name in old if data.draw(st.integers(0, 5)) != 0]
    new = list(kept)
    for name in data.draw(st.lists(st.integers(61, 99), unique=True, max_size=5)):
        new.insert(data.draw(st.integers(0, len(new))), name)
    if data.draw(st.booleans()) and new:
        new.insert(0, new.pop())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(name_list, "COMPARED_AT_ONCE", data.draw(st.integers(1, 9)))
        patch.setattr(name_list, "MAX_GAP", data.draw(st.integers(1, 9)))
        one, other = [f"n{at}" for at in old], [f"n{at}" for at in new]
        place = dict(zip(other, range(len(other)), strict=True))
        assert places(one, other).tolist() == [place.get(name, -1) for name in one]
        assert places(tuple(other), tuple(one)).tolist() == [
            one.index(name) if name in one else -1 for name in other
        ]


def test_nothing_among_nothing() -> None:
    assert places([], []).tolist() == []
    assert places(["a"], []).tolist() == [-1]
    assert places([], ["a"]).tolist() == []


def test_parts_are_as_one_tuple() -> None:
    found = NameList([["a", "b"], [], ["a"]], np.array([0, 2, 2, 3]))
    assert (len(found), tuple(found), found[1], found[2]) == (3, ("a", "b", "a"), "b", "a")
    assert found.some(np.array([2, 0, 1])) == ["a", "a", "b"]
    assert found == ("a", "b", "a")
    assert found == NameList.of(["a", "b", "a"])
    assert found != NameList.of(["a"])
    assert found != ["a", "b", "a"]


def test_the_same_names_are_shown_alike_whatever_their_parts() -> None:
    several = NameList([("p",), ("q", "r")], np.array([0, 1, 3]))
    assert repr(several) == repr(NameList.of(("p", "q", "r")))
