"""How often a host plans."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hostcc.daemon.planning.cpu_budget import MAX_CPU_SHARE, MAX_SAVED_S, CpuBudget

COSTS = st.lists(st.floats(0.0, 100.0), min_size=1, max_size=40)


def begun(costs: list[float], step_s: float = 0.25) -> list[float]:
    """When plans that cost so much begin, if one is wanted all the time."""
    pace, at, found = CpuBudget(), 0.0, []
    for cost in costs:
        while not (pace := pace.now(at)).free:
            at += step_s
        found.append(at)
        pace = pace.spent(cost)
        at += step_s
    return found


def test_the_first_plans_begin_at_once() -> None:
    assert begun([0.2] * 5) == [0.0, 0.25, 0.5, 0.75, 1.0]


def test_a_plan_of_half_a_second_is_made_every_50() -> None:
    moments = begun([0.5] * 40)
    assert 49.5 < (moments[-1] - moments[-11]) / 10 < 50.5


def test_a_calm_while_is_saved_up_but_not_for_ever() -> None:
    spent = CpuBudget().spent(MAX_SAVED_S + 0.1)
    assert not spent.free
    assert not spent.now(9.9).free
    assert spent.now(10.1).free
    assert spent.now(1e6).left_s == MAX_SAVED_S


def test_a_clock_that_steps_back_gives_and_takes_nothing() -> None:
    assert CpuBudget(0.5, 100.0).now(50.0).left_s == 0.5


@given(COSTS)
def test_plans_take_no_more_than_their_share(costs: list[float]) -> None:
    moments = begun(costs, step_s=10.0)
    # What the last costs is paid afterwards.
    assert sum(costs[:-1]) <= MAX_SAVED_S + MAX_CPU_SHARE * moments[-1] + 1e-9


def test_a_plan_is_waited_for_no_longer_than_its_share_needs() -> None:
    spent = CpuBudget(0.0).spent(10.0)
    assert not spent.now(999.0).free
    assert spent.now(1001.0).free
