"""A job's iteration times as a histogram: right sum and count, whatever ends were missed."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostcc.daemon.jobs.iteration_histogram import BOUNDS_S, IterationHistogram

pytestmark = pytest.mark.unit


def count(of: IterationHistogram) -> float:
    return of.buckets()[-1][1]


def test_buckets_are_cumulative() -> None:
    made = IterationHistogram()
    for period_s in (0.1, 0.11, 0.3, 500.0):
        made.add(period_s, 1e6, 1e6)
    found = dict(made.buckets())
    assert list(found) == [*map(str, BOUNDS_S), "+Inf"]
    assert (found["0.05"], found["0.1"], found["0.15"], found["0.3"]) == (0, 1, 2, 3)
    assert (found["100.0"], found["+Inf"]) == (3, 4)
    assert made.sum_s == pytest.approx(500.51)


@given(seed=st.integers(0, 2**32), missed=st.floats(0, 0.4), invented=st.floats(0, 0.3))
def test_the_mean_is_right_although_ends_are_missed_and_invented(
    seed: int, missed: float, invented: float
) -> None:
    rng, made = Random(seed), IterationHistogram()
    true_s, iterations = 0.0, 400
    period_s = size = 0.0
    for _ in range(iterations):
        took = rng.gauss(0.24, 0.01)
        true_s += took
        if rng.random() < invented:
            part = rng.uniform(0.1, 0.4)
            made.add(period_s + part * took, size + part * 1e6, 1e6)
            period_s, size = (1 - part) * took, (1 - part) * 1e6
        else:
            period_s, size = period_s + took, size + 1e6
        if rng.random() >= missed:
            made.add(period_s, size, 1e6)
            period_s = size = 0.0
    mean = made.sum_s / count(made)
    assert mean == pytest.approx(true_s / iterations, rel=0.01)


def test_pieces_are_put_together_and_pauses_count_once() -> None:
    made = IterationHistogram()
    for _ in range(4):
        made.add(0.05, 0.3e6, 1e6)
    assert count(made) == 1
    assert made.sum_s == pytest.approx(0.15)
    made.add(10.0, 100e6, 1e6)
    assert count(made) == 17
