"""docs/metrics.md has every metric, as agents export it."""

from __future__ import annotations

import re

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.daemon.api.recorded import METRICS
from tools import metrics_page, monitoring
from tools.metrics_page import Row

pytestmark = pytest.mark.unit


def test_the_page_is_what_the_code_says() -> None:
    assert metrics_page.PAGE.read_text() == metrics_page.page(), "python -m tools.metrics_page"


def test_what_is_exported_is_on_it() -> None:
    """With its type, words and labels."""
    known = {row.name: row for row in metrics_page.rows()}
    families = list(text_string_to_metric_families(METRICS.read_text()))
    assert len(families) > 50
    for family in families:
        # The text format writes an info as a gauge, and leaves the ending of a counter to names.
        name = family.name + ("_total" if family.type == "counter" else "")
        row = known[name]
        assert row.words == family.documentation.rstrip(".")
        assert family.type == {"info": "gauge"}.get(row.kind, row.kind)
        for sample in family.samples:
            assert tuple(sample.labels) == row.labels, name


def test_what_is_asked_for_is_on_it() -> None:
    known = {row.name for row in metrics_page.rows()}
    for alert in monitoring.ALERTS:
        for name in re.findall(r"\bhostcc_[a-z_]+", alert.expr):
            assert name in known


def test_a_row() -> None:
    row = Row("hostcc_x_total", "counter", ("kind",), "Things")
    assert row.line() == "| `hostcc_x_total` | counter | `kind` | Things |"
