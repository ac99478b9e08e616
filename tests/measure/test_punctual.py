"""Iterations of a job that seldom sends, by its few full bins."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.synthetic import Dirt, Shape, job
from hostcc.measure.cells import cells
from hostcc.measure.changes import Reference, following, reference
from hostcc.measure.period import detect
from hostcc.measure.punctual import FEWEST, punctual
from hostcc.measure.series import ByteSeries, joined, part, series

pytestmark = pytest.mark.unit

ONE = Shape(0.2, np.array([0.95]), np.array([0.05]), np.array([1.0]))
TWO = Shape(0.2, np.array([0.3, 0.63]), np.array([0.02, 0.05]), np.array([1.0, 0.5]))
LEARNED = 3000


def made(shape: Shape, seed: int, then: Shape | None = None, jitter: float = 0.005) -> ByteSeries:
    rng = np.random.default_rng([seed, 7])
    dirt = Dirt(jitter=jitter)
    return job(shape, dirt, rng, iterations=40, bin_s=0.001, then=then, change_at=30).series


def learned(of: ByteSeries) -> tuple[int, float, Reference]:
    """The first bin of what comes after, where it begins, and what it has to resemble."""
    before = part(of, 0, LEARNED)
    found = detect(before)
    known = reference(before, found)
    assert known is not None
    assert found.starts is not None
    start = float(found.starts[-1])
    return int(start), start, known


@pytest.mark.parametrize("shape", [ONE, TWO])
@pytest.mark.parametrize("seed", range(4))
def test_they_are_those_that_are_found_one_after_the_other(shape: Shape, seed: int) -> None:
    of = made(shape, seed)
    first, start, known = learned(of)
    found = punctual(cells(part(of, first)), start - first, known, first)
    expected = following(of, start, known)
    assert len(found) >= 20
    assert len(expected) - 2 <= len(found) <= len(expected)
    assert sum(one.deviates for one in expected) <= 3
    for one, other in zip(found, expected, strict=False):
        assert one.start == pytest.approx(other.start, abs=0.05 * known.period)
        assert one.sent == pytest.approx(other.sent, abs=known.bytes_tolerance)


@pytest.mark.parametrize(
    "then",
    [
        Shape(0.25, np.array([0.96]), np.array([0.04]), np.array([1.0])),
        Shape(0.2, np.array([0.9]), np.array([0.1]), np.array([1.0])),
        Shape(0.2, np.array([0.45, 0.5]), np.array([0.025, 0.025]), np.array([1.0, 1.0])),
    ],
    ids=["longer", "more", "another shape"],
)
@pytest.mark.parametrize("seed", range(4))
def test_it_ends_where_the_job_changes(then: Shape, seed: int) -> None:
    of = made(ONE, seed, then)
    first, start, known = learned(of)
    found = punctual(cells(part(of, first)), start - first, known, first)
    changed_at = start + round((30 * 200 - start) / 200) * 200
    assert all(one.start + one.length * known.period <= changed_at + 100 for one in found)
    # All that is as it was is told, or nothing: then it has to be looked at closely.
    assert not found or len(found) >= FEWEST - 1


def test_a_job_that_falls_silent_does_not_go_on() -> None:
    of, nothing = made(ONE, 0), np.zeros(5000, np.int64)
    first, start, known = learned(of)
    whole = joined(of, series(nothing, nothing, of.bin_ns, of.end_ns))
    found = punctual(cells(part(whole, first)), start - first, known, first)
    assert found == [] or found[-1].start < len(of) - known.period
    silent = series(nothing, nothing, of.bin_ns, 0)
    assert punctual(cells(silent), 0.0, known) == []


def test_of_little_nothing_is_said() -> None:
    of = made(ONE, 1)
    first, start, known = learned(of)
    few = cells(part(of, first, first + int((FEWEST - 0.5) * known.period)))
    assert punctual(few, start - first, known) == []
