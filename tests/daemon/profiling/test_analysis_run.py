"""Analyses of a batch, each as it was requested."""

from __future__ import annotations

import numpy as np
import pytest

from hostcc.daemon.profiling.analysis_budget import AnalysisRequest
from hostcc.daemon.profiling.analysis_run import analyse_all
from hostcc.daemon.profiling.tracks import Track
from hostcc.measure.series import ByteSeries

pytestmark = pytest.mark.unit

MS = 1_000_000


def test_a_look_is_as_thorough_as_it_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[bool] = []

    def look(
        _: Track, new: ByteSeries, *, thorough: bool, unchanged_until_ns: float | None, skips: bool
    ) -> None:
        said.append(thorough and len(new) == 0)
        assert (unchanged_until_ns, skips) == ((None, False) if thorough else (5.0, True))

    monkeypatch.setattr(Track, "analyse", look)
    nothing = ByteSeries(MS, 0, np.zeros(0, np.int64), np.zeros(0, np.int64))
    looks = [
        AnalysisRequest(Track("a"), nothing, True, None),
        AnalysisRequest(Track("b"), nothing, False, None, 5.0, True),
    ]
    assert len(analyse_all(looks)) == 2
    assert said == [True, False]
