"""The budget of holds: never more than the share in any minute."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostcc.schedule.gates.hold_budget import WINDOW_S, HoldBudget

pytestmark = pytest.mark.unit

SHARE = 0.05


def test_a_full_budget_fills_no_further() -> None:
    budget = HoldBudget.full(SHARE, 10.0)
    assert budget.left_s == pytest.approx(SHARE * WINDOW_S / 2)
    assert budget.at(1e6).left_s == budget.left_s
    assert budget.at(9.0).left_s == budget.left_s, "a clock that steps back gives nothing"


def test_it_comes_back() -> None:
    empty = HoldBudget.full(SHARE, 10.0).spent(SHARE * WINDOW_S / 2)
    assert empty.left_s == 0
    assert empty.at(10.0 + WINDOW_S / 2).left_s == pytest.approx(SHARE * WINDOW_S / 4)


@given(st.lists(st.tuples(st.floats(0, 30), st.floats(0, 10)), max_size=60))
def test_no_minute_has_more_than_the_share(steps: Sequence[tuple[float, float]]) -> None:
    """Held as long as it may be, as often as somebody likes."""
    budget, now_s = HoldBudget.full(SHARE, 0.0), 0.0
    holds: list[tuple[float, float]] = []
    for pause_s, wanted_s in steps:
        now_s += pause_s
        budget = budget.at(now_s)
        held_s = max(0.0, min(wanted_s, budget.left_s))
        holds.append((now_s, now_s + held_s))
        now_s += held_s
        budget = budget.at(now_s).spent(held_s)
    for _, end_s in holds:
        inside = (min(to, end_s) - max(since, end_s - WINDOW_S) for since, to in holds)
        assert sum(max(0.0, one) for one in inside) <= SHARE * WINDOW_S + 1e-6
