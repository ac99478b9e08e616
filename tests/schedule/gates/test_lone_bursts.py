"""What a burst takes while nobody else sends."""

from __future__ import annotations

import pytest

from hostcc.schedule.gates.lone_bursts import KEPT_BURSTS, MIN_BURSTS, LoneBursts

pytestmark = pytest.mark.unit


def after(times_s: list[float], of: LoneBursts | None = None) -> LoneBursts:
    of = of or LoneBursts()
    for one in times_s:
        of = of.begin(5.0, alone=True).end(5.0 + one)
    return of


def test_the_usual_one_of_the_latest() -> None:
    assert after([0.1] * (MIN_BURSTS - 1)).usual_s is None
    seen = after([0.3, *[0.1] * (MIN_BURSTS - 1)])
    assert seen.usual_s == pytest.approx(0.1)
    assert after([0.2] * KEPT_BURSTS, seen).usual_s == pytest.approx(0.2)


def test_who_was_disturbed_says_nothing() -> None:
    of = LoneBursts()
    assert of.begin(1.0, alone=False).end(1.1) == of
    assert of.begin(1.0, alone=True).disturb(1.05, expected_s=0.08).end(1.1) == of
    assert of.end(1.1) == of.disturb(1.1, expected_s=0.08) == of, "its begin was not seen"
    assert of.begin(1.0, alone=True).end(1.0) == of, "a burst of no length"


def test_who_was_disturbed_late_took_at_least_so_long() -> None:
    of = LoneBursts()
    for _ in range(MIN_BURSTS):
        of = of.begin(1.0, alone=True).disturb(1.12, expected_s=0.08).end(1.2)
    assert of.usual_s == pytest.approx(0.12)
