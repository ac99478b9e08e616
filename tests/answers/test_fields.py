"""Units and metrics out of the types of fields."""

from __future__ import annotations

from typing import Annotated

import pytest
from msgspec import Struct
from prometheus_client import core

from hostcc.answers.fields import (
    Bytes,
    Counter,
    Gauge,
    Label,
    Seconds,
    Unit,
    annotations_of,
    families,
    families_of_rows,
    label_of,
    metrics_of,
)

pytestmark = pytest.mark.unit

TIME = Gauge("time_seconds", "Time")
SENT = Counter("sent_bytes", "Sent")


class Row(Struct, frozen=True, kw_only=True):
    """A row with two metrics."""

    name: Annotated[str, Label("who")]
    time_s: Annotated[Seconds | None, TIME]
    sent: Annotated[Bytes, SENT]
    others: list[Seconds] = []


def test_a_type_carries_unit_and_metric_also_where_it_may_be_none() -> None:
    assert annotations_of(Row)["time_s"] == (TIME, Unit("s"))
    assert annotations_of(Row)["others"] == ()  # the unit is of what the list contains
    assert metrics_of(Row) == {"time_s": TIME, "sent": SENT}
    assert label_of(Row) == ("name", "who")


def test_rows_without_a_label_cannot_be_told_apart() -> None:
    with pytest.raises(LookupError, match="Struct has no label"):
        label_of(Struct)


def test_what_is_not_known_has_no_sample() -> None:
    rows = [Row(name="a", time_s=None, sent=7), Row(name="b", time_s=0.5, sent=8)]
    time, sent = families_of_rows(core, Row, rows)
    assert (time.name, time.type, time.documentation) == ("time_seconds", "gauge", "Time")
    assert [(one.labels, one.value) for one in time.samples] == [({"who": "b"}, 0.5)]
    assert (sent.name, sent.type) == ("sent_bytes", "counter")
    assert [one.value for one in sent.samples] == [7, 8]


def test_families_of_rows_are_there_without_a_row_and_those_of_a_block_are_not() -> None:
    assert [one.name for one in families_of_rows(core, Row, [])] == ["time_seconds", "sent_bytes"]
    (sent,) = families(core, Row(name="a", time_s=None, sent=7))
    assert sent.samples[0].value == 7
