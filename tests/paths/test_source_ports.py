"""How many ports it takes: against the formula's own simulation."""

from __future__ import annotations

import random

import pytest

from hostcc.paths import source_ports

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("paths", [1, 2, 4, 16, 64])
def test_expected_ports_is_the_mean_of_drawing(paths: int) -> None:
    draw = random.Random(paths)
    total, runs = 0, 400
    for _ in range(runs):
        seen: set[int] = set()
        while len(seen) < paths:
            seen.add(draw.randrange(paths))
            total += 1
    assert total / runs == pytest.approx(source_ports.expected_ports(paths), rel=0.1)


@pytest.mark.parametrize("paths", [2, 4, 8, 32])
def test_stopping_rule_misses_as_seldom_as_it_says(paths: int) -> None:
    draw, risk, missed, runs = random.Random(1), 0.05, 0, 1000
    for _ in range(runs):
        seen: set[int] = set()
        tried = 0
        while not seen or tried < source_ports.stop_after(len(seen), risk):
            seen.add(draw.randrange(paths))
            tried += 1
        missed += len(seen) < paths
    assert missed / runs < 1.5 * risk


def test_risk_is_below_what_was_accepted_when_it_stops() -> None:
    for paths in range(1, 65):
        stop = source_ports.stop_after(paths, 0.01)
        assert (
            source_ports.missed_risk(paths, stop)
            <= 0.01
            < source_ports.missed_risk(paths, stop - 1)
        )
    assert source_ports.missed_risk(0, 0) == 1.0
