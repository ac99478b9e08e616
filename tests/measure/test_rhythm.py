"""Iterations told apart by silences above a background."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import synthetic
from hostcc.measure.rhythm import Rhythm, bursts, dividing, rhythm
from hostcc.measure.series import Floats

pytestmark = pytest.mark.unit

RATE = 100.0


def laid(table: list[tuple[float, float]], bins: int, seed: int = 1) -> Floats:
    """Bursts (from, to) at one rate beside data loading of a fifth of it."""
    rows = np.array([(begin, end, RATE) for begin, end in table])
    noise = np.random.default_rng(seed).gamma(6.0, 0.2 * RATE / 6.0, bins)
    return synthetic.binned(rows, 1.0, bins) + noise


def heard(table: list[tuple[float, float]], bins: int) -> Rhythm:
    found = rhythm(laid(table, bins))
    assert found is not None
    return found


def regular(count: int, period: float, length: float) -> list[tuple[float, float]]:
    return [(k * period + 7.3, k * period + 7.3 + length) for k in range(count)]


@pytest.mark.parametrize("period", [12.0, 40.0, 333.3])
def test_exchanges_beside_loading(period: float) -> None:
    found = heard(regular(11, period, 0.4 * period), int(11 * period))
    assert found.likely > 0.9
    assert found.interval == pytest.approx(period, rel=0.02)
    phases = (found.starts - 7.3) / period % 1
    assert phases == pytest.approx(0.7, abs=0.08)
    assert len(found.starts) >= 8


def test_a_late_worker_divides_an_exchange() -> None:
    """Each fourth iteration waits within its exchange for longer than it computes."""
    table, now = [], 10.0
    for number in range(12):
        now += 30
        if number % 4 == 1:
            part = 5 + number
            table += [(now, now + part), (now + part + 40 + number, now + 60 + number)]
            now += 60 + number
        else:
            table.append((now, now + 20))
            now += 20
    found = heard(table, int(now) + 10)
    assert found.likely > 0.8
    assert found.interval == pytest.approx(50, rel=0.02)
    assert 9 <= len(found.starts) <= 11


def test_another_job_in_the_link_changes_lengths_only() -> None:
    """The same bytes at half the rate take twice as long; computing does not."""
    rows, now = [], 5.0
    for number in range(11):
        now += 40
        slow = number % 4 in (1, 2)
        rows.append((now, now + (40 if slow else 20), RATE / 2 if slow else RATE))
        now = rows[-1][1]
    values = synthetic.binned(np.array(rows), 1.0, int(now) + 5)
    found = rhythm(values + np.random.default_rng(1).gamma(6.0, 0.02 * RATE, len(values)))
    assert found is not None
    assert found.likely > 0.8
    assert found.interval == pytest.approx(70, abs=11)
    assert len(found.starts) == 10


def test_bursts_within_an_iteration_are_none() -> None:
    """Five bursts and a longer silence: the bursts are not the iterations."""
    table = [
        (start + 12 * burst, start + 12 * burst + 6)
        for start in np.arange(11) * 100.0
        for burst in range(5)
    ]
    found = heard(table, 1100)
    assert found.likely > 0.8
    assert found.interval == pytest.approx(100, rel=0.01)


@pytest.mark.parametrize("name", synthetic.APERIODIC)
def test_what_has_no_rhythm(name: str) -> None:
    wrong = 0
    for seed in range(30):
        made = synthetic.APERIODIC[name](np.random.default_rng([9, seed]))
        found = rhythm(made.series.total)
        wrong += found is not None and found.likely >= 0.8
    assert wrong <= 1


def test_bursts_begin_between_bins() -> None:
    values = synthetic.binned(np.array([(3.25, 7.5, 10.0), (12.0, 12.75, 10.0)]), 1.0, 20)
    found = bursts(values, values > 5)
    assert found.begins == pytest.approx([3.25, 12.0], abs=0.26)
    assert found.ends == pytest.approx([7.5, 12.75], abs=0.26)
    assert found.sent == pytest.approx([42.5, 7.5])


def test_the_dividing_rate_is_between_high_and_low() -> None:
    values = np.concatenate((np.full(60, 3.0), np.full(40, 90.0)))
    assert 3 < dividing(values) < 90
    assert dividing(np.zeros(50)) == 0.0


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=400))
def test_any_series(counts: list[int]) -> None:
    values = np.asarray(counts, dtype=np.float64)
    found = rhythm(values)
    if found is not None:
        assert 0 <= found.likely <= 1
        assert found.interval > 0
        assert (np.diff(found.starts) > 0).all()
        again = rhythm(values * 3)
        assert again is not None
        assert again.likely == pytest.approx(found.likely, abs=0.3)
