"""Guesses of jobs' iterations from little traffic."""

from __future__ import annotations

import numpy as np
import pytest

from hostcc.daemon.profiling.guess import LEAST_S, NOMINAL_S, RATE_S, guess
from hostcc.measure.series import ByteSeries, rebinned, series

pytestmark = pytest.mark.unit

MS = 1_000_000


def bursts(silent_ms: list[int], sending_ms: list[int], rate: int = 100) -> ByteSeries:
    """Silences and bursts in turn, in bins of a millisecond, half of each burst sent."""
    parts = [
        np.repeat([0, rate], [silent, sending])
        for silent, sending in zip(silent_ms, sending_ms, strict=True)
    ]
    both = np.concatenate(parts)
    return series(both, both, MS)


def test_three_iterations_are_enough() -> None:
    found = guess([bursts([120] * 3, [130] * 3)])
    assert found is not None
    assert found.period_s == pytest.approx(0.25)
    assert found.silent_s == pytest.approx(0.12)
    assert found.tx_bytes == pytest.approx(13_000)


def test_collisions_make_iterations_longer_but_not_larger() -> None:
    """Each burst lasts as long as others let it; its bytes are the same."""
    chance = np.random.default_rng(1)
    parts = []
    for _ in range(12):
        slowed = int(chance.integers(1, 4))
        parts += [np.zeros(120, np.int64), np.full(120 * slowed, 120 // slowed, np.int64)]
    both = np.concatenate(parts)
    found = guess([series(both, both, MS)])
    assert found is not None
    assert found.tx_bytes == pytest.approx(120 * 120, rel=0.02)
    assert found.silent_s == pytest.approx(0.12, abs=0.002)


def test_pauses_within_a_burst_are_none() -> None:
    of = bursts([120, 30, 30] * 6, [40, 40, 40] * 6)
    found = guess([of])
    assert found is not None
    assert found.period_s == pytest.approx(0.3)
    assert found.tx_bytes == pytest.approx(12_000)


def test_the_silence_before_the_first_iteration_is_none() -> None:
    found = guess([bursts([1, 900, 120, 120, 120, 120], [2, 100, 100, 100, 100, 100])])
    assert found is not None
    assert found.period_s == pytest.approx(0.22, abs=0.01)


def test_who_never_pauses_has_a_rate() -> None:
    found = guess([bursts([0], [3000])])
    assert found is not None
    assert (found.period_s, found.silent_s) == (NOMINAL_S, 0.0)
    assert found.tx_bytes == pytest.approx(100_000)


def test_long_iterations_are_seen_in_longer_bins() -> None:
    fine = bursts([4000] * 5, [2000] * 5)
    newest = series(fine.tx[-9_000:], fine.rx[-9_000:], MS, 21_000 * MS)
    found = guess([newest, rebinned(fine, 8)])
    assert found is not None
    assert found.period_s == pytest.approx(6.0, rel=0.01)
    alone = guess([newest])
    assert alone is not None
    assert alone.period_s == NOMINAL_S


@pytest.mark.parametrize("rate", [0, 100])
def test_too_little_is_nothing(rate: int) -> None:
    short = bursts([10], [int(1000 * LEAST_S) - 20], rate)
    assert guess([short]) is None
    assert guess([bursts([0], [int(1000 * RATE_S) - 20], rate)]) is None
    assert guess([]) is None
    assert guess([bursts([2000], [0])]) is None
