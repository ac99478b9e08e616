"""Tables 3.1 and 4.3 of the thesis."""

from __future__ import annotations

import pytest

from benchmarks.evidence.studies import thesis_tables
from benchmarks.evidence.thesis_jobs import thesis
from tests.benchmarks.evidence.found import line, quick, unmet

pytestmark = pytest.mark.unit


def test_compatible_rows_are_within_a_tenth_and_nobody_else_gains() -> None:
    assert unmet("thesis-t3.1") == []
    bars = [one.bar for one in quick("thesis-t3.1").lines if one.bar]
    assert bars.count("within 10 %") == 14
    assert bars.count("no gain") == 2


def test_compatible_jobs_gain() -> None:
    for row in thesis().rows:
        if row.compatible:
            first = row.jobs[0]
            found = {
                sharing: [
                    one.here
                    for one in quick("thesis-t3.1").lines
                    if one.setting == row.name and one.figure == f"{sharing}, {first}, ms"
                ]
                for sharing in ("fair", "unfair")
            }
            assert max(found["unfair"]) < min(found["fair"])


def test_fitted_figures_are_those_of_existing_rows() -> None:
    jobs = {row.name: len(row.jobs) for row in thesis().rows}
    for (name, _), fitted in thesis_tables.FITTED.items():
        assert max(fitted) < jobs[name]


def test_scores_and_shifts() -> None:
    second = "2: VGG19(1400) + VGG16(1700) + ResNet50(1600)"
    score = line("thesis-t4.3", second, "score")
    assert score.kind == "predicted"
    assert score.here == pytest.approx(1.0, abs=0.03)
    assert {one.kind for one in quick("thesis-t4.3").lines if one.setting[0] == "1"} == {"fitted"}
