"""Bad peers are named once in a while and not heard for a while; memory stays bounded."""

from __future__ import annotations

import pytest

from hostcc.coord.core.offenders import MAX_EVENTS, MAX_OFFENDERS, Event, Offenders
from hostcc.coord.core.settings import Settings

pytestmark = pytest.mark.unit


def test_three_strikes_and_a_minute() -> None:
    offenders = Offenders(Settings())
    for second in range(2):
        offenders.strike("x", "bad", float(second), 0.0)
        assert offenders.accepts_from("x", float(second))
    offenders.strike("x", "bad", 2.0, 0.0)
    assert not offenders.accepts_from("x", 61.9)
    assert offenders.accepts_from("x", 62.0)
    assert offenders.accepts_from("y", 2.0)


def test_rare_slips_are_forgiven() -> None:
    offenders = Offenders(Settings())
    for minute in range(10):
        offenders.strike("x", "bad", minute * 61.0, 0.0)
        assert offenders.accepts_from("x", minute * 61.0)


def test_one_line_a_minute() -> None:
    offenders = Offenders(Settings())
    for tenth in range(6000):
        offenders.strike("x", "bad", tenth / 10, tenth / 10)
    assert len(offenders.events) == 10
    assert offenders.events[0] == Event(0.0, "offender", "x", "bad")


def test_memory_is_bounded() -> None:
    offenders = Offenders(Settings())
    for index in range(3000):
        offenders.strike(f"p{index}", "bad", 1.0, 1.0)
    assert len(offenders.events) == MAX_EVENTS
    assert len(offenders._records) <= MAX_OFFENDERS
    assert len(offenders._reported) <= MAX_OFFENDERS
