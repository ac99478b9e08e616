"""Path tables: in any order, links once; what did not change is not read again."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from hostcc.model import Path, PathTable
from hostcc.schedule import tables
from hostcc.schedule.errors import ViewError
from hostcc.schedule.tables import Tables, read

pytestmark = pytest.mark.unit

LINKS = {"u": 1.0, "v": 1.0, "w": 1.0, "x": 1.0}
FIRST = PathTable("a", "b", (Path("p", ("x", "u")), Path("q", ("v", "v", "u"))))
OTHER = PathTable("a", "c", (Path("q", ()), Path("p", ("w",))))
ENDS = {("a", "b"), ("a", "c")}


def links(found: Tables) -> list[list[int]]:
    starts = found.path_starts
    return [found.path_links[first:last].tolist() for first, last in pairwise(starts)]


def test_paths_by_name_with_each_link_once() -> None:
    found, _ = read((OTHER, FIRST), LINKS, ENDS)
    assert found.keys == [("a", "b"), ("a", "c")]
    assert found.path_ids == ("p", "q", "p", "q")
    assert found.starts.tolist() == [0, 2, 4]
    assert links(found) == [[0, 3], [0, 1], [2], []]


def test_a_path_by_its_name() -> None:
    found, _ = read((OTHER, FIRST), {**LINKS, "x": 0.0}, ENDS)
    assert found.path_ids == ("q", "p", "q")
    table = np.array([0, 0, 0, 1, 1, 1])
    assert found.on(table, ["q", "p", "", "p", "q", "z"]).tolist() == [0, -1, -1, 1, 2, -1]


def test_an_unknown_link_and_a_name_twice() -> None:
    gone = PathTable("a", "c", (Path("p", ("u",)), Path("q", ("gone",))))
    with pytest.raises(ViewError, match="path: of a to c: expected known links, got 'gone'"):
        read((FIRST, gone), LINKS, ENDS)
    twice = PathTable("a", "c", (Path("p", ()), Path("q", ()), Path("p", ())))
    with pytest.raises(ViewError, match="path: p: expected once in its table"):
        read((FIRST, twice), LINKS, ENDS)


def test_after_a_link_has_failed_tables_are_as_they_were() -> None:
    before, _ = read((FIRST, OTHER), LINKS, ENDS)
    failed = {**LINKS, "u": 0.0}
    nothing = np.zeros(2, np.bool_)
    found, now = read((FIRST, OTHER), failed, ENDS, before, nothing)
    assert found.read is before.read
    assert now.tolist() == [0, 1]
    fresh, _ = read((FIRST, OTHER), failed, ENDS)
    assert (found.path_ids, links(found)) == (fresh.path_ids, links(fresh))


def test_tables_stay_when_other_links_come_and_go(monkeypatch: pytest.MonkeyPatch) -> None:
    before, _ = read((FIRST, OTHER), {"l": 1.0, **LINKS}, ENDS)
    more = {"k": 1.0, "m": 0.0, **LINKS, "y": 1.0}
    fresh, _ = read((FIRST, OTHER), more, ENDS)
    monkeypatch.setattr(tables, "_alike", lambda *_: True)
    found, now = read((FIRST, OTHER), more, ENDS, before, np.ones(2, np.bool_))
    assert now.tolist() == [0, 1]
    assert found.read.ways is before.read.ways
    assert links(found) == links(fresh)
    assert (found.path_ids, found.alive) == (fresh.path_ids, fresh.alive)


def test_a_table_with_a_link_that_is_gone_is_read_again() -> None:
    before, _ = read((FIRST, OTHER), LINKS, ENDS)
    fewer = {name: value for name, value in LINKS.items() if name != "w"}
    with pytest.raises(ViewError, match="known links, got 'w'"):
        read((FIRST, OTHER), fewer, ENDS, before, np.ones(2, np.bool_))
    other = PathTable("a", "c", (Path("q", ("v",)),))
    found, now = read((FIRST, other), fewer, ENDS, before, np.ones(2, np.bool_))
    assert now.tolist() == [0, -1]
    assert links(found) == links(read((FIRST, other), fewer, ENDS)[0])


def test_a_table_that_says_something_else_is_read_again() -> None:
    before, _ = read((FIRST, OTHER), LINKS, ENDS)
    changed = PathTable("a", "b", (Path("p", ("x", "v")), FIRST.paths[1]))
    found, now = read((changed, OTHER), LINKS, set(), before, np.ones(2, np.bool_))
    assert now.tolist() == [-1, 1]
    assert links(found) == [[1, 3], [0, 1], [2], []]


@pytest.mark.parametrize("few", [0, 10**6])
def test_tables_by_number(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "TABLES_PER_SEARCH", few)
    found, _ = read((OTHER, FIRST), LINKS, ENDS)
    wanted = [("a", "c"), ("a", "a"), ("z", "z"), ("a", "b")]
    assert found.numbers(wanted).tolist() == [1, -1, -1, 0]
    assert found.numbers([]).tolist() == []
