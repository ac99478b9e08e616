"""How long a guest waits, whose clock leaps while it rests on a busy host."""

from __future__ import annotations

import time

import pytest

from tests.vm.patience import STILL_LOOKS, STILL_S, until


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The clock, which leaps over STILL_S between two looks."""
    seen = [0.0]

    def leap() -> float:
        seen.append(seen[-1] + STILL_S)
        return seen[-1]

    monkeypatch.setattr(time, "monotonic", leap)
    return seen


def test_a_leap_of_the_clock_ends_no_wait(looks: list[float]) -> None:
    assert until(lambda: len(looks) > STILL_LOOKS, lambda: 0, "something", every_s=0.0)


def test_who_stands_still_is_given_up(looks: list[float]) -> None:
    with pytest.raises(AssertionError, match="something: nothing moves after 0"):
        until(lambda: False, lambda: 0, "something", every_s=0.0)
    assert len(looks) > STILL_LOOKS


def test_who_moves_is_waited_for_up_to_a_bound(looks: list[float]) -> None:
    with pytest.raises(AssertionError, match="something: not after"):
        until(lambda: False, lambda: len(looks), "something", most=100, every_s=0.0)
    assert len(looks) > 100
