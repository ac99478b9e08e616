"""Iterations out of bytes: of jobs with one burst, several, and hardly a silence."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostcc.measure.iteration_starts import iteration_marks
from hostcc.measure.series import ByteSeries, Floats

BIN_NS = 1_000_000


def job(
    times_s: Floats, bursts: tuple[tuple[float, float], ...], size: float, receives: bool = False
) -> ByteSeries:
    """Iterations of these lengths; `bursts`: from and to, in shares of an iteration."""
    edges = np.concatenate(([0.0], np.cumsum(times_s)))
    bins = np.arange(0.0, edges[-1], BIN_NS / 1e9)
    share = sum(end - begin for begin, end in bursts)
    at = np.searchsorted(edges, bins, side="right") - 1
    within = (bins - edges[at]) / times_s[at]
    on = np.zeros(len(bins), bool)
    for begin, end in bursts:
        on |= (within >= begin) & (within < end)
    rate = np.where(on, size / (share * times_s[at]) * BIN_NS / 1e9, 0.0)
    for index in range(len(times_s)):  # to the byte: rounding of bins is not what is looked at
        rate[at == index] *= size / max(1.0, rate[at == index].sum())
    sent = np.round(rate).astype(np.int64)
    none = np.zeros_like(sent)
    return ByteSeries(BIN_NS, 5_000_000_000, *((none, sent) if receives else (sent, none)))


@pytest.mark.parametrize("receives", [False, True])
@pytest.mark.parametrize(
    "bursts",
    [((0.0, 0.4),), ((0.1, 0.2), (0.4, 0.5), (0.7, 0.8)), ((0.0, 0.3), (0.35, 0.95))],
    ids=["one burst", "three bursts", "a short silence"],
)
def test_iterations_of_different_lengths(
    bursts: tuple[tuple[float, float], ...], receives: bool
) -> None:
    random = np.random.default_rng(7)
    times = random.uniform(0.15, 0.35, 40)
    found = np.diff(iteration_marks(job(times, bursts, 2e6, receives), 2.01e6))
    assert len(found) >= len(times) - 2
    # From a moment of one iteration to the same of the next: a mean of both lengths.
    assert np.all(found > 0.14)
    assert np.mean(found) == pytest.approx(np.mean(times), rel=0.02)


def test_a_delayed_iteration_is_seen() -> None:
    times = np.full(30, 0.2)
    times[12] = 0.5
    found = np.diff(iteration_marks(job(times, ((0.0, 0.3),), 1e6), 1e6))
    assert np.sum(found > 0.3) == 1
    assert np.max(found) > 0.45


def test_bytes_that_are_sent_again_make_no_iteration_longer() -> None:
    random = np.random.default_rng(3)
    again = random.uniform(1.0, 1.12, 60)
    times = np.where(np.arange(60) % 7 == 3, 0.26, 0.2)
    made = job(times, ((0.0, 0.4),), 2e6)
    sent = (made.tx * np.repeat(again, np.round(times * 1000).astype(int))).astype(np.int64)
    found = np.diff(iteration_marks(ByteSeries(BIN_NS, 0, sent, made.rx), 2e6))
    assert len(found) in (58, 59)
    assert np.mean(found) == pytest.approx(np.mean(times), rel=0.005)
    assert np.max(found) < 0.29
    assert np.min(found) > 0.17


def test_the_clock_is_that_of_the_series() -> None:
    found = iteration_marks(job(np.full(10, 0.2), ((0.0, 0.4),), 1e6), 1e6)
    assert 5.0 < found[0] < 5.1
    assert found[1] - found[0] == pytest.approx(0.2, abs=2e-3)


def test_less_than_an_iteration_is_none() -> None:
    assert len(iteration_marks(job(np.full(1, 0.2), ((0.0, 0.4),), 1e6), 2e6)) == 0
    nothing = ByteSeries(BIN_NS, 0, np.zeros(10, np.int64), np.zeros(10, np.int64))
    assert len(iteration_marks(nothing, 1e6)) == 0
    assert len(iteration_marks(nothing, 0.0)) == 0


@given(
    st.lists(st.integers(0, 10**9), min_size=1, max_size=200),
    st.floats(1.0, 1e10),
)
def test_any_bytes_have_ascending_marks(values: list[int], size: float) -> None:
    sent = np.array(values, np.int64)
    if sent.sum() / size > 1e5:
        return
    found = iteration_marks(ByteSeries(BIN_NS, 0, sent, np.zeros_like(sent)), size)
    assert np.all(np.diff(found) >= 0)
    # Up to a tenth fewer bytes each, and half an iteration of drift.
    assert len(found) <= sent.sum() / (0.45 * size) + 1
