"""Crux's small cases."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import small_cases
from benchmarks.context import Context
from tests.benchmarks.evidence.found import quick, unmet

pytestmark = [pytest.mark.unit, pytest.mark.slow]


def test_crux_is_before_the_others_and_hostcc_before_crux() -> None:
    assert unmet("crux-16") == []
    figures = {one.figure for one in quick("crux-16").lines}
    assert {f"mean error, {one}, %" for one in ("Crux", "TACCL*", "Varys", "hostcc")} <= figures


def test_finished_cases_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context = Context(runs=1, out=tmp_path)
    first = small_cases.shares(1, 0, context)

    def study(*_: object, **__: object) -> None:
        raise AssertionError

    monkeypatch.setattr(small_cases, "study", study)
    again = small_cases.shares(1, 0, context)
    assert {key: own.tolist() for key, own in again.items()} == {
        key: own.tolist() for key, own in first.items()
    }
