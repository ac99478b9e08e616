"""Runs cut into parts."""

from __future__ import annotations

import pytest

from benchmarks import phases
from tests.benchmarks.results import run


def test_iterations_that_begin_and_end_in_a_part() -> None:
    entry = run({"a": [0.1] * 10, "b": [0.2] * 5})
    first, second = phases.cut(("first", "second"), [0.35])
    assert [len(part) for part in phases.ratios(entry, first)] == [3, 1]
    assert [len(part) for part in phases.ratios(entry, second)] == [6, 3]
    assert [len(part) for part in phases.ratios(entry, second, skip=4)] == [2, 0]


def test_what_lies_between_parts_is_in_none() -> None:
    entry = run({"a": [0.1] * 10})
    first, second = phases.cut(("first", "second"), ends_s=[0.25], begins_s=[0.55])
    assert len(phases.ratios(entry, first)[0]) == 2
    assert len(phases.ratios(entry, second)[0]) == 4


def test_mean_is_of_jobs_and_needs_all_of_them() -> None:
    assert phases.mean([[1.0, 1.0, 1.0], [2.0]]) == pytest.approx(1.5)
    assert phases.mean([[1.0], []]) is None
    assert phases.mean([]) is None


def test_parts_and_moments_have_to_match() -> None:
    with pytest.raises(ValueError, match="zip"):
        phases.cut(("first", "second"), [0.1, 0.2])
