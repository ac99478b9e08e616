"""A figure's declaration makes its column and its cell."""

from __future__ import annotations

from typing import Annotated

import msgspec
import pytest

from benchmarks.headings import Heading, cells, columns
from benchmarks.record import Column, spread

pytestmark = pytest.mark.unit


class Figures(msgspec.Struct, frozen=True):
    seconds: Annotated[float | None, Heading("ms", 1, 1e3)]
    what: str
    flows: Annotated[int, Heading("flows", 0)]


def test_columns_are_in_the_order_of_the_fields_or_as_asked_for() -> None:
    ms, flows = Column("seconds", "ms", digits=1, scale=1e3), Column("flows", "flows", digits=0)
    assert columns(Figures) == [ms, flows]
    assert columns(Figures, "flows", "seconds") == [flows, ms]


def test_cells_are_of_what_has_a_heading() -> None:
    runs = [Figures(0.5, "a", 3), Figures(None, "b", 5)]
    assert cells(runs) == {"seconds": spread([0.5, None]), "flows": spread([3, 5])}


def test_results_are_decoded_as_without_headings() -> None:
    one = Figures(0.5, "a", 3)
    assert msgspec.json.decode(msgspec.json.encode(one), type=Figures) == one
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(b'{"seconds": 1, "what": "a", "flows": "many"}', type=Figures)
