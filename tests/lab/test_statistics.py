"""Figures of a comparison, against their definitions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostcc.lab import statistics

seconds = st.lists(st.floats(0.01, 10), min_size=1, max_size=80)


@given(seconds, st.floats(0.01, 10))
def test_summary_is_ordered_and_consistent(times: list[float], alone: float) -> None:
    figures = statistics.summarise(times, alone, alone)
    assert figures.iterations == len(times)
    assert min(times) - 1e-9 <= figures.p50_s <= figures.p99_s <= max(times) + 1e-9
    assert figures.ratio_mean == pytest.approx(figures.mean_s / alone)
    assert figures.ratio_max == pytest.approx(max(times) / alone)
    split = figures.ratio_first * min(10, len(times))
    if len(times) > 10:
        split += figures.ratio_rest * (len(times) - 10)
    assert split == pytest.approx(figures.ratio_mean * len(times))


@given(st.lists(st.floats(0.9, 1.3), max_size=40))
def test_convergence_is_the_first_streak(ratios: list[float]) -> None:
    after = statistics.converged_after(ratios)
    streaks = [index for index in range(len(ratios) - 2) if max(ratios[index : index + 3]) <= 1.05]
    assert after == (streaks[0] if streaks else None)


def test_convergence_of_all_needs_the_same_moment() -> None:
    starts = {"a": [0.0, 1, 2, 3, 4, 5, 6, 7], "b": [0.0, 1, 2, 3, 4, 5, 6, 7]}
    good, bad = [1.0] * 3, [1.5]
    ratios = {"a": good + bad + good + [1.0], "b": bad + good + bad + good}
    assert statistics.converged_after(ratios["a"]) == 0
    assert statistics.converged_after(ratios["b"]) == 1
    assert statistics.all_converged_after(starts, ratios) == 5


def test_convergence_of_all_counts_the_busiest_job() -> None:
    starts = {"slow": [0.0, 2, 4, 6, 8], "fast": [float(n) for n in range(10)]}
    ratios = {"slow": [1.4, 1.0, 1.0, 1.0, 1.0], "fast": [1.4] * 4 + [1.0] * 6}
    assert statistics.all_converged_after(starts, ratios) == 4
    ratios["fast"] = [1.4] * 10
    assert statistics.all_converged_after(starts, ratios) is None


def test_best_alone_is_per_job() -> None:
    alone = {"cubic": {"a": 2.0, "b": 1.0}, "reno": {"a": 1.5, "b": 1.2}}
    assert statistics.best_alone(alone) == {"a": 1.5, "b": 1.0}


def test_time_alone_ignores_the_first_and_hiccups() -> None:
    assert statistics.alone_time([9.0, 1.0, 1.0, 1.0, 5.0]) == 1.0


def test_bandwidth_of_known_counters() -> None:
    times = np.array([0.0, 0.5, 1.0])
    counters = np.array([[0, 0], [1_000_000, 0], [1_000_000, 2_000_000]])
    middles, rates = statistics.bandwidth_mbit(times, counters)
    assert middles.tolist() == [0.25, 0.75]
    assert rates.tolist() == [[16.0, 0.0], [0.0, 32.0]]


@given(st.lists(st.floats(0, 100), min_size=1, max_size=9))
def test_spread_brackets_the_mean(values: list[float]) -> None:
    mean, least, greatest = statistics.spread(values)
    assert least - 1e-9 <= mean <= greatest + 1e-9
