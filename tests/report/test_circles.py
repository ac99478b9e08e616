"""Pictures of circles: what is drawn, and that names from others stay names."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from hostcc.report import circles
from hostcc.report.svg import ALARM, colour
from tests.schedule.test_link_circles import circle, on_link, row

pytestmark = pytest.mark.unit

SVG = "{http://www.w3.org/2000/svg}"
HALVES = circle(row(on_link("a", 0, 1.0, 0.5), on_link("b", 1, 1.0, 0.5)))


def test_a_picture_has_an_arc_for_each_burst_and_collision() -> None:
    root = ET.fromstring(circles.picture(HALVES, {"c": "#000"}))
    arcs = [one.get("stroke") for one in root.iter(f"{SVG}path")]
    assert arcs.count(colour(0)) == arcs.count(colour(1)) == 2  # in either circle
    assert arcs.count(ALARM) == 1  # turned, they fit
    text = [one.text for one in root.iter(f"{SVG}text")]
    assert {"a", "b", "0.50", "1.00", "all bursts find room at once"} <= set(text)


def test_turned_arcs_go_over_the_top() -> None:
    assert circles.turned([(0.5, 1.0)], 0.75) == [(0.25, 0.75)]
    ((start, end),) = circles.turned([(0.25, 0.5)], 0.625)
    assert (start, end) == (0.875, 1.125)


def test_many_jobs_stay_inside() -> None:
    many = circle(row(*(on_link(f"job-{at}", at, 1.0, 0.05) for at in range(16))))
    root = ET.fromstring(circles.sheet([many, HALVES]))
    assert root.get("height") == f"{2 * circles.HEIGHT:g}"
    ys = [float(one.get("y", "0")) for one in root.iter(f"{SVG}text")]
    assert max(ys) <= circles.HEIGHT


def test_hostile_names_are_text() -> None:
    hostile = '<script>alert(1)</script>"&\x1b[2J\n'
    both = on_link(hostile, 0, 1.0, 0.5), on_link("b", 1, 1.0, 0.5)
    drawn = circles.picture(circle(row(*both)), {}, 1)
    root = ET.fromstring(drawn)
    assert not list(root.iter(f"{SVG}script"))
    assert "\x1b" not in drawn
    assert "\n" not in drawn
    assert any("<script>alert" in (one.text or "") for one in root.iter(f"{SVG}text"))
