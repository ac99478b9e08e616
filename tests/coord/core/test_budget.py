"""Rates with bursts."""

from __future__ import annotations

import pytest

from hostcc.coord.core.budget import Budget, NamedBudgets

pytestmark = pytest.mark.unit


def test_a_burst_then_the_rate() -> None:
    budget = Budget(10.0, 100.0)
    spent = 0
    for tick in range(100):
        budget.refill(tick * 0.1)
        while budget.take(20):
            spent += 20
    assert 100 + 99 - 20 <= spent <= 100 + 99 + 20


def test_each_name_has_its_own() -> None:
    allowances = NamedBudgets(1.0, 3)
    assert [allowances.take("a", 0.0) for _ in range(4)] == [True, True, True, False]
    assert allowances.take("b", 0.0)
    assert allowances.take("a", 1.0)
    assert not allowances.take("a", 1.0)


def test_names_are_bounded() -> None:
    allowances = NamedBudgets(1.0, 3, names=10)
    for index in range(1000):
        assert allowances.take(f"n{index}", 0.0)
    assert len(allowances._budgets) <= 10


def test_many_names_at_once_cost_little(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[float] = []

    def refill(budget: Budget, now: float) -> None:
        looked_at.append(now)
        budget.left = 1.0  # never full

    monkeypatch.setattr(Budget, "refill", refill)
    allowances = NamedBudgets(1.0, 3, names=100)
    for index in range(1000):
        assert allowances.take(f"n{index}", 0.0)
    assert len(looked_at) < 6 * 1000


def test_those_that_are_not_full_stay_where_there_is_room() -> None:
    allowances = NamedBudgets(1.0, 3, names=100)
    for index in range(99):
        assert allowances.take(f"n{index}", 0.0)
    assert all(allowances.take("busy", 1.0) for _ in range(3))
    assert allowances.take("next", 1.0)  # the others are full again and make room
    assert not allowances.take("busy", 1.0)
