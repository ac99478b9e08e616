"""Crux's examples come out exactly."""

from __future__ import annotations

import pytest

from benchmarks.evidence.studies import crux_examples
from tests.benchmarks.evidence.found import quick, unmet

pytestmark = pytest.mark.unit


def test_all_bars_are_met() -> None:
    assert unmet("crux-11-15") == []
    assert len([line for line in quick("crux-11-15").lines if line.met]) == 17


def test_only_the_figure_of_chosen_edges_is_fitted() -> None:
    fitted = {line.setting for line in quick("crux-11-15").lines if line.kind == "fitted"}
    assert fitted == {"Fig. 14, exact K-cut", "Fig. 14, Algorithm 1"}


def test_computing_first_gives_other_numbers() -> None:
    jobs = tuple((compute, 0.0, alone) for compute, _, alone in crux_examples.FIRST)
    found = crux_examples.played(jobs, 0)
    assert found.compute_seconds.tolist() != [6.0, 3.0]
