"""Charts: axes, gaps, and nothing where nothing is known."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from hostcc.report import charts
from hostcc.report.charts import Axis, Series

pytestmark = pytest.mark.unit

SVG = "{http://www.w3.org/2000/svg}"
AXIS = Axis(1000.0, 10.0, 1.0, "units", [(990.0, "mode off"), (5.0, "before")])


def test_means_of_known_neighbours() -> None:
    assert charts.condensed([1.0, 3.0, None, 5.0, None, None, 7.0], 4) == [2.0, 5.0, None, 7.0]
    assert charts.condensed([1.0, 2.0], 90) == [1.0, 2.0]
    assert charts.trimmed([[None, None, 1.0], [None, 2.0, 3.0]]) == 1


@pytest.mark.parametrize(
    ("most", "scale", "top"),
    [(3.9, 1.0, 4.0), (4.1, 1.0, 8.0), (0.31, 1e-3, 0.4), (21e9, 1e9, 40e9)],
)
def test_axes_end_at_round_figures(most: float, scale: float, top: float) -> None:
    assert charts.axis_top(most, scale) == pytest.approx(top)


def test_a_gap_is_no_line() -> None:
    drawn = ET.fromstring(charts.sparkline([1.0, 2.0, None, 3.0, None, 1.0, 1.0], "#000"))
    (path,) = drawn.iter(f"{SVG}path")
    assert (path.get("d") or "").count("M") == 3
    assert charts.sparkline([None, None], "#000") == ""


def test_areas_are_on_top_of_each_other() -> None:
    two = [Series("a", "#111", [1.0, 1.0]), Series("b", "#222", [3.0, None])]
    drawn = ET.fromstring(charts.stacked(two, AXIS))
    areas = {one.get("fill"): one.get("d") or "" for one in drawn.iter(f"{SVG}path")}
    low, top = charts.CHART[1] - charts.BOTTOM, charts.TOP
    assert areas["#222"].startswith(f"M{charts.LEFT} {top}")  # 4 of an axis that ends at 4
    assert f"{low - (low - top) / 4:.1f}" in areas["#111"]
    text = [one.text for one in drawn.iter(f"{SVG}text")]
    assert "mode off" in text
    assert "before" not in text
    assert charts.stacked([], AXIS) == charts.stacked([Series("a", "#111", [None])], AXIS) == ""


def test_lines_have_a_key() -> None:
    drawn = ET.fromstring(charts.lines([Series("<a>", "#111", [1.0, None, 2.0])], AXIS))
    assert "<a>" in [one.text for one in drawn.iter(f"{SVG}text")]
    assert charts.lines([Series("a", "#111", [None])], AXIS) == ""
