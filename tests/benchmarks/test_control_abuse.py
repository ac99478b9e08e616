"""How long root waits: the figures and what they are held against."""

from __future__ import annotations

import pytest

from benchmarks.control_abuse import judge, row, waits_of

pytestmark = pytest.mark.unit
SECONDS = [0.001 * number for number in range(1, 101)]


def test_figures_of_a_series() -> None:
    waits = waits_of(SECONDS, 3)
    assert (waits.requests, waits.refused, waits.longest_s) == (100, 3, 0.1)
    assert waits.p50_s == pytest.approx(0.0505)
    assert waits.p99_s == pytest.approx(0.09901)


def test_a_slow_answer_and_a_refusal_are_faults() -> None:
    assert [one.met for one in judge("alone", [waits_of(SECONDS, 0)])] == [True, True]
    assert [one.met for one in judge("alone", [waits_of([0.2], 1)])] == [False, False]
    assert [one.met for one in judge("alone", [waits_of([], 0)])] == [False, True]


def test_a_row_has_every_run() -> None:
    cells = row("alone", [waits_of(SECONDS, 0), waits_of([0.2], 1)])
    assert cells["beside"] == "alone"
    assert getattr(cells["requests"], "values", None) == (100, 1)
