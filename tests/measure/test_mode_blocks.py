"""Comparison of modes: intervals that hold the truth as often as they say."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

from hostcc.measure.mode_blocks import MIN_ROUNDS, T_95, Block, figures, interval

MODES = ("off", "mltcp")


def campaign(random: np.random.Generator, gain: float, rounds: int = 8) -> list[Block]:
    """Blocks of a job whose iterations are alike within a block, on a host that changes slowly."""
    blocks = []
    for at in range(rounds):
        host = random.normal(0.0, 0.1)
        for mode, mean in (("off", 0.3), ("mltcp", 0.3 / gain)):
            level = mean * np.exp(host + random.normal(0.0, 0.03))
            times = level * np.exp(random.normal(0.0, 0.05, 40))
            blocks.append(Block(at, mode, tuple(map(float, times))))
    return blocks


def test_quantiles_are_students() -> None:
    expected = [scipy.stats.t.ppf(0.975, degrees) for degrees in range(1, len(T_95) + 1)]
    assert pytest.approx(expected, abs=5e-4) == T_95


def test_an_interval_is_that_of_the_t_test() -> None:
    values = np.log(np.array([1.1, 1.3, 1.25, 1.21]))
    low, high = scipy.stats.t.interval(0.95, 3, values.mean(), scipy.stats.sem(values))
    found = interval(values)
    assert (found.low, found.high) == pytest.approx((np.exp(low), np.exp(high)), rel=1e-3)
    assert found.value == pytest.approx(scipy.stats.gmean(np.exp(values)))


@pytest.mark.parametrize("gain", [1.0, 1.4])
def test_the_truth_is_inside_95_times_of_100(gain: float) -> None:
    random = np.random.default_rng(11)
    inside = 0
    for _ in range(1000):
        found = figures(campaign(random, gain), MODES)[1].gain
        assert found is not None
        inside += found.low <= gain <= found.high
    assert inside >= 930  # two standard errors below 950 are 936


def test_what_a_slow_change_does_is_taken_out() -> None:
    random = np.random.default_rng(3)
    off, mltcp = figures(campaign(random, 1.4, 20), MODES)
    assert mltcp.gain is not None
    assert off.gain is None
    width = np.log(mltcp.gain.high / mltcp.gain.low)
    assert width < np.log(mltcp.mean_s.high / mltcp.mean_s.low) / 1.5
    assert off.iterations == mltcp.iterations == 800
    assert mltcp.p99_s.value > mltcp.mean_s.value


def test_too_little_says_nothing() -> None:
    random = np.random.default_rng(5)
    blocks = campaign(random, 1.4, MIN_ROUNDS)
    assert figures(blocks, MODES)
    assert figures(blocks[:-1], MODES) == ()
    short = [*blocks[:-1], Block(blocks[-1].round, "mltcp", (0.2,) * 4)]
    assert figures(short, MODES) == ()
    assert figures([], MODES) == ()
