"""F(bytes_ratio): its forms, its bounds, its samples for BPF; head starts and tie-breaks."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostcc.mltcp.params import Shape, ShapeKind
from hostcc.mltcp.shape import (
    F_MAX,
    F_MIN,
    Q10,
    f_of,
    f_table_q10,
    tie_q10,
    urgency_bias_q10,
)
from tests import hash_seeds

RATIO = st.floats(0, 1)
SLOPE = st.floats(-20, 20)
INTERCEPT = st.floats(0.001, 100)
TABLE = st.lists(st.floats(0.001, 900), min_size=1, max_size=40).map(tuple)
WEIGHT = st.floats(0.01, 100)
POINTS = st.integers(2, 100)
PER_OCTAVE = st.integers(1, 1024)
NAME = st.text(min_size=1, max_size=64)
SHAPES = st.one_of(
    st.builds(Shape, st.just(ShapeKind.LINEAR), SLOPE, INTERCEPT),
    st.builds(Shape, st.just(ShapeKind.EXPONENTIAL), SLOPE, INTERCEPT),
    st.builds(Shape, st.just(ShapeKind.TABLE), table=TABLE),
)


def at(shape: Shape, ratio: float) -> float:
    return float(f_of(shape, ratio))


def test_default_is_the_published_function() -> None:
    assert f_of(Shape(), [0, 0.5, 1]) == pytest.approx([0.25, 1.125, 2.0])


def test_exponential_form() -> None:
    shape = Shape(ShapeKind.EXPONENTIAL, slope=6, intercept=0.125)
    assert f_of(shape, [0, 0.5, 1]) == pytest.approx([0.125, 1, 8])


@given(slope=st.floats(0, 20), intercept=INTERCEPT, low=RATIO, high=RATIO)
@pytest.mark.parametrize("kind", [ShapeKind.LINEAR, ShapeKind.EXPONENTIAL])
def test_who_has_sent_more_is_never_slower(
    kind: ShapeKind, slope: float, intercept: float, low: float, high: float
) -> None:
    shape = Shape(kind, slope, intercept)
    low, high = sorted((low, high))
    assert at(shape, low) <= at(shape, high)


@given(SHAPES, st.floats(allow_nan=False))
def test_bounded_whatever_the_ratio(shape: Shape, ratio: float) -> None:
    assert F_MIN <= at(shape, ratio) <= F_MAX
    assert at(shape, ratio) == at(shape, min(1.0, max(0.0, ratio)))


@given(TABLE)
def test_table_goes_through_its_points(table: tuple[float, ...]) -> None:
    shape = Shape(ShapeKind.TABLE, table=table)
    inside = np.clip(table, F_MIN, F_MAX)
    assert f_of(shape, np.linspace(0, 1, len(table))) == pytest.approx(inside)


@given(TABLE.filter(lambda t: len(t) > 1), RATIO)
def test_table_is_straight_between_its_points(table: tuple[float, ...], ratio: float) -> None:
    place = ratio * (len(table) - 1)
    left = min(int(place), len(table) - 2)
    low, high = np.clip(table[left : left + 2], F_MIN, F_MAX)
    expected = low + (high - low) * (place - left)
    assert at(Shape(ShapeKind.TABLE, table=table), ratio) == pytest.approx(expected, abs=1e-6)


@given(SLOPE, INTERCEPT, RATIO)
def test_table_without_points_is_linear(slope: float, intercept: float, ratio: float) -> None:
    empty = Shape(ShapeKind.TABLE, slope, intercept)
    assert at(empty, ratio) == at(Shape(ShapeKind.LINEAR, slope, intercept), ratio)


@given(SHAPES, WEIGHT, POINTS)
def test_samples_are_the_weighted_function(shape: Shape, weight: float, points: int) -> None:
    table = f_table_q10(shape, weight, points)
    assert table.dtype == np.uint32
    assert table.shape == (points,)
    assert table.min() >= 1
    assert table.max() <= F_MAX * Q10
    exact = np.clip(f_of(shape, np.linspace(0, 1, points)) * weight, F_MIN, F_MAX)
    assert np.abs(table / Q10 - exact).max() <= 0.5 / Q10 + 1e-9


@given(WEIGHT, POINTS)
def test_flat_one_is_exactly_one(weight: float, points: int) -> None:
    flat = Shape(slope=0, intercept=1)
    assert set(f_table_q10(flat, 1.0, points)) == {Q10}
    assert len(set(f_table_q10(flat, weight, points))) == 1


@given(SHAPES, WEIGHT, WEIGHT, POINTS)
def test_more_weight_is_never_less(shape: Shape, one: float, other: float, points: int) -> None:
    low, high = sorted((one, other))
    assert (f_table_q10(shape, low, points) <= f_table_q10(shape, high, points)).all()


@given(NAME)
def test_tie_break_is_bounded(name: str) -> None:
    assert 0 <= tie_q10(name) < Q10


def test_tie_break_tells_jobs_apart() -> None:
    names = [f"job-{number}" for number in range(200)]
    assert len({tie_q10(name) for name in names}) > len(names) // 2


def test_tie_break_is_the_same_in_every_process() -> None:
    # Python's own hash() is seeded per process, which would not do.
    names = [f"job-{number}" for number in range(20)]
    code = f"from hostcc.mltcp.shape import tie_q10; print(*map(tie_q10, {names}))"
    assert hash_seeds.output(code).split() == [str(tie_q10(name)).encode() for name in names]


@given(PER_OCTAVE, st.integers(-6, 6))
def test_twice_the_weight_is_one_octave(per_octave: int, octaves: int) -> None:
    assert urgency_bias_q10(2.0**octaves, per_octave) == octaves * per_octave


@given(PER_OCTAVE, st.lists(WEIGHT, min_size=2, max_size=5))
def test_head_start_follows_weight(per_octave: int, weights: list[float]) -> None:
    biases = [urgency_bias_q10(weight, per_octave) for weight in sorted(weights)]
    assert all(low <= high for low, high in itertools.pairwise(biases))
    assert max(map(abs, biases)) <= math.ceil(math.log2(100) * per_octave)
