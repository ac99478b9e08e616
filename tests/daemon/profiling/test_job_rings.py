"""Rings of what jobs did: means by step, silence, jobs that end, and a bounded size."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hostcc.daemon.profiling.job_rings import JobRings

pytestmark = pytest.mark.unit


def shown(rings: JobRings, name: str, points: int = 4) -> list[float | None]:
    means, _ = rings.recent([name], points)
    return [None if math.isnan(value) else value for value in means[0, 0].tolist()]


def test_means_of_steps_and_what_is_unknown() -> None:
    rings = JobRings(10.0, 6, 1, 8)
    rings.add(100.0, {"a": [(10.0, 1.0)]})
    rings.add(105.0, {"a": [(30.0, 1.0)]})
    rings.add(121.0, {"a": [(7.0, 2.0)]})
    rings.add(130.0, {})
    assert shown(rings, "a") == [None, 20.0, None, 3.5]
    assert rings.recent(["a"], 4)[1] == 120.0  # the step that goes on is not among them


def test_steps_are_used_again() -> None:
    rings = JobRings(1.0, 4, 1, 8)
    for step in range(50):
        rings.add(step, {"a": [(float(step), 1.0)]})
    assert shown(rings, "a", 3) == [46.0, 47.0, 48.0]
    rings.add(1000.0, {"a": [(5.0, 1.0)]})
    rings.add(1001.0, {})
    assert shown(rings, "a", 3) == [None, None, 5.0]


def test_jobs_that_ended_stay_until_their_steps_are_over() -> None:
    rings = JobRings(1.0, 4, 1, 8)
    rings.add(1, {"a": [(1.0, 1.0)], "b": [(2.0, 1.0)]})
    for step in (2, 3, 4):
        rings.add(step, {"b": [(2.0, 1.0)]})
    assert rings.names == ["a", "b"]
    rings.add(5, {"b": [(2.0, 1.0)]})
    assert rings.names == ["b"]
    rings.add(6, {"c": [(9.0, 1.0)]})
    assert shown(rings, "c", 3) == [None, None, None]  # nothing of the job that had the place
    rings.add(7, {})
    assert shown(rings, "c", 3) == [None, None, 9.0]


def test_places_are_bounded_and_go_to_jobs_that_are_there() -> None:
    rings = JobRings(1.0, 100, 2, 3)
    both = [(1.0, 1.0), (1.0, 1.0)]
    rings.add(1, dict.fromkeys("abc", both))
    rings.add(2, dict.fromkeys("abcd", both))
    assert rings.names == ["a", "b", "c"]  # all of them are there
    rings.add(3, dict.fromkeys("bc", both))
    rings.add(4, dict.fromkeys("bcd", both))
    assert rings.names == ["b", "c", "d"]
    for step in range(5, 300):
        rings.add(step, {f"j{step}": both})
    assert len(rings.names) == 3
    assert rings.nbytes == 3 * 2 * 2 * 100 * np.dtype(np.float32).itemsize
