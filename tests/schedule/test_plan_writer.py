"""A plan that is written from the one before says what one written anew says."""

from __future__ import annotations

import random

import pytest

from hostcc.schedule import plan_writer
from hostcc.schedule.plan import solve
from hostcc.schedule.plan_writer import write_plan
from tests.schedule.test_plan import many, shuffled
from tests.schedule.test_reuse import OPTIONS, changed, placed

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("few", [0, 16, 10**6])
@pytest.mark.parametrize("seed", range(6))
def test_flows_come_go_and_move(seed: int, few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_writer, "MIN_FLOWS_PER_CHANGE", few)
    rng = random.Random(seed)
    view = many(30, 90, seed)
    before, last = None, None
    for _ in range(5):
        found = solve(view, OPTIONS, before)
        made = write_plan("d", found, before, last)
        assert made == write_plan("d", found)
        before, last = found, made
        view = changed(view if rng.random() < 0.3 else placed(view, made), rng)
        if rng.random() < 0.2:
            view = shuffled(view, seed)


def test_what_has_not_changed_is_the_same_object() -> None:
    view = many(30, 90, 1)
    found = solve(view, OPTIONS)
    made = write_plan("d", found)
    again = write_plan("e", solve(view, OPTIONS, found), found, made)
    assert again.digest == "e"
    assert all(one is other for one, other in zip(made.flows, again.flows, strict=True))
    assert all(one.reason is two.reason for one, two in zip(made.jobs, again.jobs, strict=True))
