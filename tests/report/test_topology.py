"""The drawing of paths in use: columns, few crossings, and a bounded size."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from itertools import combinations, pairwise

import pytest

from hostcc.model import ClusterView, Flow, FlowPlan, Path, PathTable
from hostcc.report import topology
from hostcc.report.svg import ALARM
from hostcc.report.topology import MAX_ROWS, Topology, Way, layout, picture, ways

pytestmark = pytest.mark.unit

SVG = "{http://www.w3.org/2000/svg}"
PATHS = (Path("p", ("a>", ">s1", ">b")), Path("q", ("a>", ">s2", ">b")))


def flow(name: str, job: str, path: str = "") -> Flow:
    return Flow(name, job, "a", "b", 100.0, path=path)


def test_planned_paths_go_before_present_ones_and_unknown_ones_are_left_out() -> None:
    view = ClusterView(
        flows=(flow("1", "x", "p"), flow("2", "x", "p"), flow("3", "y", "p"), flow("4", "z")),
        tables=(PathTable("a", "b", PATHS),),
    )
    found = ways(view, [FlowPlan("2", "q"), FlowPlan("3", "gone")])
    assert [(one.job, one.boxes[2], one.bytes) for one in found] == [
        ("x", ">s1", 100), ("x", ">s2", 100),
    ]  # fmt: skip


def crossings(of: Topology) -> int:
    row = {
        (at, name): place for at, names in enumerate(of.columns) for place, name in enumerate(names)
    }
    hops = [hop for _, boxes in of.lines for hop in pairwise(boxes)]
    return sum(
        (row[one[0]] - row[other[0]]) * (row[one[1]] - row[other[1]]) < 0
        for one, other in combinations(hops, 2)
        if one[0][0] == other[0][0] and one[1][0] == other[1][0]
    )


def test_paths_that_need_not_cross_do_not() -> None:
    of = layout([Way(f"j{at}", (f"h{at}", f"l{9 - at}", f"d{at}"), 1.0) for at in range(10)])
    assert crossings(of) == 0
    assert of.left_out == 0


def test_short_paths_keep_their_ends_outside() -> None:
    of = layout([Way("a", ("h", "l1", "l2", "l3", "d"), 1.0), Way("b", ("h", "m", "d"), 1.0)])
    assert [set(names) for names in of.columns] == [{"h"}, {"l1"}, {"l2", "m"}, {"l3"}, {"d"}]


def test_what_finds_no_room_is_counted() -> None:
    of = layout([Way("j", (f"h{at}", f"d{at}"), 1.0) for at in range(MAX_ROWS + 7)])
    assert max(map(len, of.columns)) == MAX_ROWS
    assert of.left_out == 7
    many = layout([Way(f"j{at}", ("h", "d"), 1.0) for at in range(topology.MAX_WAYS + 3)])
    assert many.left_out == 3


def test_the_picture_marks_links_that_are_offered_too_much() -> None:
    of = layout([Way("<j>", ("h", "l&m", "d"), 1.0), Way("k", ("h", "l&m", "d"), 1.0)])
    root = ET.fromstring(picture(of, {"k": "#123456"}, {"l&m": 1.2}))
    assert "#123456" in {one.get("stroke") for one in root.iter(f"{SVG}path")}
    assert [one.get("stroke") for one in root.iter(f"{SVG}rect")].count(ALARM) == 1
    assert "l&m  1.20" in [one.text for one in root.iter(f"{SVG}text")]
    assert picture(layout([]), {}, {}) == ""
