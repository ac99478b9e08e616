"""Crux's Examples 1 and 2, and what the correction factor does in other cases."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostcc.schedule.correction import K_MAX, K_MIN, correction, play, reference_job
from hostcc.schedule.intensity import intensity
from hostcc.schedule.problem import Floats

pytestmark = pytest.mark.unit

Numbers = tuple[float, float, float]


def pair(one: Numbers, other: Numbers) -> tuple[Floats, Floats, Floats]:
    compute, start, comm = (np.array([[a], [b]]) for a, b in zip(one, other, strict=True))
    return compute, start, comm


ONE, TWO = (2.0, 2.0, 2.0), (1.0, 1.0, 1.0)
"""Example 1: (compute, communication starts after, communication alone), seconds."""


def test_example_1() -> None:
    first, second = play(*pair(ONE, TWO), np.array([12.0]))
    assert (first.network[0], second.network[0]) == (6.0, 3.0)
    assert (first.computing[0] + second.computing[0]) / 24 == pytest.approx(0.375)
    assert (12 - first.computing[0], 12 - second.computing[0]) == (6.0, 9.0)
    second, first = play(*pair(TWO, ONE), np.array([12.0]))
    assert (first.network[0], second.network[0]) == (4.0, 6.0)
    assert (first.computing[0] + second.computing[0]) / 24 == pytest.approx(5 / 12)
    assert (12 - first.computing[0], 12 - second.computing[0]) == (8.0, 6.0)


def test_example_1_correction() -> None:
    compute, start, comm = (np.array(each) for each in zip(ONE, TWO, strict=True))
    assert correction(compute, start, comm, 0, duration=12.0).tolist() == [1.0, 1.5]
    assert correction(compute, start, comm, 0).tolist()[1] > 1
    assert intensity(np.array([10.0, 5.0]), comm).tolist() == [5.0, 5.0]


def test_example_2() -> None:
    one, two = (4.0, 2.0, 1.0), (2.0, 1.0, 3.0)
    _, second = play(*pair(one, two), np.array([12.0]))
    assert 12 - second.computing[0] == 7.0
    second, _ = play(*pair(two, one), np.array([12.0]))
    assert 12 - second.computing[0] == 6.0


def test_nothing_to_compare() -> None:
    empty = np.zeros(0)
    assert correction(empty, empty, empty, 0).tolist() == []
    one = np.ones(1)
    assert correction(one, one, one, 0).tolist() == [1.0]
    silent = np.array([1.0, 0.0])
    assert correction(np.ones(2), np.ones(2), silent, 0).tolist() == [1.0, 1.0]
    assert correction(np.ones(2), np.ones(2), silent, 1).tolist() == [1.0, 1.0]
    assert intensity(np.ones(2), silent).tolist() == [1.0, 0.0]
    assert reference_job(empty) == 0
    assert reference_job(np.array([1.0, 3.0, 3.0])) == 1


def test_iterations_of_years_end() -> None:
    """Seconds of the shortest step are lost in the sum of the years before it."""
    comm = np.array([0.7, 1.0]) * 2.0**60 / 1e6
    assert correction(np.ones(2), np.ones(2), comm, 1).tolist() == [1.0, 1.0]


seconds = st.floats(0.01, 100.0)


@given(st.lists(st.tuples(seconds, st.floats(0, 1), seconds), min_size=1, max_size=6))
def test_in_range_and_itself_one(jobs: list[tuple[float, float, float]]) -> None:
    compute, share, comm = (np.array(column) for column in zip(*jobs, strict=True))
    k = correction(compute, share * compute, comm, 0)
    assert k[0] == 1.0
    assert ((k >= K_MIN) & (k <= K_MAX)).all()
