"""How long something was so within a window of the past."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostcc.daemon.planning.recent_time import MAX_SPANS, Spans, step, total

pytestmark = pytest.mark.unit

WINDOW_S = 10.0


def test_time_adds_up_and_leaves_the_window() -> None:
    spans = step((), 3.0, 1.0, WINDOW_S)
    assert spans == step(spans, 4.0, 4.0, WINDOW_S) == ((1.0, inf),)
    assert total(spans, 5.0, WINDOW_S) == 4.0
    spans = step(step(spans, 5.0, None, WINDOW_S), 7.0, 7.0, WINDOW_S)
    assert [total(spans, now, WINDOW_S) for now in (7.0, 9.0, 12.0, 30.0)] == [4, 6, 8, 10]
    assert step(spans, 15.0, 15.0, WINDOW_S) == ((7.0, inf),)


def test_the_shortest_gap_is_given_up_where_there_are_too_many_spans() -> None:
    spans: Spans = ()
    for at in range(MAX_SPANS + 1):
        spans = step(step(spans, at, at, 1e6), at + (0.9 if at == 5 else 0.5), None, 1e6)
    assert len(spans) == MAX_SPANS
    assert spans[5] == (5.0, 6.5)


@given(st.lists(st.booleans(), max_size=400))
def test_no_time_is_forgotten(moments: list[bool]) -> None:
    spans: Spans = ()
    for now, so in enumerate(moments):
        spans = step(spans, now, now if so else None, 300)
        assert len(spans) <= MAX_SPANS
        assert total(spans, now, 300) >= sum(moments[max(0, now - 300) : now])
