"""The time alone and the gain: which source is used, and that nothing is made up."""

from __future__ import annotations

from typing import Any

import pytest

from hostcc.daemon.profiling.alone import (
    AloneTime,
    OffPeriod,
    alone_time,
    by_bytes,
    gain,
    off_period,
)

pytestmark = pytest.mark.unit

OFF = OffPeriod(0.4, 20, 0.3)


def alone(**more: Any) -> AloneTime | None:
    given: dict[str, Any] = dict.fromkeys(
        ("silence_s", "link_time_s", "plan_time_s", "turn_s", "off", "now_s")
    )
    return alone_time(**{**given, **more})


def test_silence_and_the_longest_time_on_a_link() -> None:
    found = alone(silence_s=0.2, link_time_s=0.05)
    assert found is not None
    assert found.seconds == pytest.approx(0.25)
    assert found.how == "200 ms of silence and t = 50 ms on this host's links"
    found = alone(silence_s=0.2, link_time_s=0.05, plan_time_s=0.08)
    assert found is not None
    assert found.seconds == pytest.approx(0.28)
    assert found.how.endswith("by the plan")


def test_what_was_measured_goes_before_what_is_computed() -> None:
    assert alone(silence_s=0.2, link_time_s=0.05, turn_s=0.26) == AloneTime(
        0.26, "measured while the job went first"
    )


def test_a_turn_that_was_slower_than_iterations_are_now_does_not_count() -> None:
    assert alone(turn_s=0.26, now_s=0.258) is not None
    assert alone(turn_s=0.3, now_s=0.26) is None
    found = alone(silence_s=0.2, link_time_s=0.05, turn_s=0.3, now_s=0.26)
    assert found is not None
    assert found.seconds == pytest.approx(0.25)


def test_iterations_in_mode_off_are_an_upper_bound() -> None:
    shortest = AloneTime(0.3, "the shortest of 20 iterations in mode off")
    assert alone(off=OFF) == shortest
    assert alone(silence_s=0.2, link_time_s=0.2, off=OFF) == shortest
    found = alone(silence_s=0.2, link_time_s=0.05, off=OFF)
    assert found is not None
    assert found.seconds == pytest.approx(0.25)


def test_nothing_is_made_up() -> None:
    assert alone() is None
    assert alone(silence_s=0.2) is None
    assert alone(link_time_s=0.2, plan_time_s=0.3) is None


def test_the_gain() -> None:
    known = AloneTime(0.25, "")
    found = gain(0.32, is_off=False, off=OFF, alone=known)
    assert found is not None
    assert found.value == pytest.approx(1.25)
    assert found.over == "off"
    for is_off, off in ((True, OFF), (False, None)):
        found = gain(0.5, is_off=is_off, off=off, alone=known)
        assert found is not None
        assert found.value == pytest.approx(0.5)
        assert found.over == "alone"
    assert gain(None, is_off=False, off=OFF, alone=known) is None
    assert gain(0.3, is_off=False, off=None, alone=None) is None


def test_a_period_of_mode_off_counts_only_its_own_iterations() -> None:
    begins = [0.0, 0.2, 0.4, *(1.0 + 0.3 * at for at in range(11))]
    found = off_period(begins, 1.0)
    assert found is not None
    assert found.iterations == 10
    assert found.mean_s == pytest.approx(0.3)
    assert found.shortest_s == pytest.approx(0.3)
    assert off_period(begins, 2.0) is None  # too few
    assert off_period([], 0.0) is None


def test_iterations_counted_by_bytes() -> None:
    assert by_bytes(10.0, 5e6, 1e5) == OffPeriod(0.2, 50)
    assert by_bytes(10.0, 3.9e6, 1e5) is None  # the ends would matter too much
    assert by_bytes(10.0, 5e6, None) is None
    assert by_bytes(0.0, 5e6, 1e5) is None
    assert alone(off=OffPeriod(0.2, 50)) is None  # none of them is known by itself
