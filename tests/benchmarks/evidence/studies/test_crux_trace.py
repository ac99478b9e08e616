"""Crux's trace statistics."""

from __future__ import annotations

import pytest

from tests.benchmarks.evidence.found import line, quick

pytestmark = [pytest.mark.unit, pytest.mark.slow]


def test_what_the_generator_was_fitted_to_is_no_prediction() -> None:
    predicted = {one.figure for one in quick("crux-4-5-6").lines if one.kind == "predicted"}
    assert predicted == {"jobs at risk, max", "GPUs at risk, mean share"}


def test_sizes_follow_the_published_ones() -> None:
    for gpus in (8, 64, 128, 256, 512):
        found = line("crux-4-5-6", "Fig. 4", f"jobs of up to {gpus} GPUs")
        assert found.here == pytest.approx(found.published, abs=0.02)
    assert any("Fig. 4 has 6 %" in note for note in quick("crux-4-5-6").notes)
