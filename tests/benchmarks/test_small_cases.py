"""A few small cases through the benchmark."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from benchmarks import record, small_cases
from benchmarks.context import Context
from hostcc.errors import InputError
from hostcc.sim.study import CaseResult

pytestmark = [pytest.mark.unit, pytest.mark.slow]


def test_a_case() -> None:
    args = argparse.Namespace(cases=1, seed=3, errors=(0, 20), processes=1)
    found = small_cases.run(args, Context(1, None))
    rows = {(row["error"], row["stage"], row["method"]): row for row in found.rows}
    assert {key[0] for key in rows} == {0, 20}
    assert all(0 < float(str(row["mean"])) <= 1.05 for row in found.rows)
    for stage in ("paths", "order", "levels", "pipeline"):
        assert float(str(rows[0, stage, "hostcc"]["mean"])) > 0.98
    assert rows[0, "work", "measured"]["mean"] == rows[0, "pipeline", "hostcc"]["mean"]
    assert {"assumed", "assumed, GPUs known", "zero"} <= {key[2] for key in rows}
    assert sum(goal.scope.startswith("work ") for goal in found.goals) == 4
    assert len(found.parameters["each"]) == 1
    assert record.decode(record.encode(found)).benchmark == "small-cases"


def test_worst_tenth() -> None:
    assert small_cases.worst_tenth(np.arange(20.0)) == 0.5
    assert small_cases.worst_tenth(np.array([3.0])) == 3.0


def test_finished_cases_are_not_studied_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    studied = []

    def study(seed: int, index: int, errors: Sequence[float]) -> CaseResult:
        studied.append(index)
        found = CaseResult(index, 0.9, 7, 0.5)
        for stage in small_cases.STAGES:
            for method in ("hostcc", small_cases.RIVAL.get(stage, "Crux")):
                found.shares[0.0, stage, method] = 0.9 + index / 100
                found.took[0.0, stage, method] = 0.25
        for method in ("measured", *small_cases.ASSUMED, "zero"):
            found.shares[0.0, "work", method] = 0.9
            found.took[0.0, "work", method] = 0.25
        return found

    monkeypatch.setattr(small_cases, "study", study)

    def run(cases: int, *, fresh: bool = False, report_only: bool = False) -> record.Record:
        args = argparse.Namespace(cases=cases, seed=3, errors=(0,), processes=1)
        return small_cases.run(args, Context(1, tmp_path, fresh, report_only))

    with pytest.raises(InputError, match="finished cases"):
        run(2, report_only=True)
    run(2)
    found = run(4)
    assert studied == [0, 1, 2, 3]
    assert [one["case"] for one in found.parameters["each"]] == [0, 1, 2, 3]
    assert found.failures == []
    reported = run(9, report_only=True)
    assert reported.rows == found.rows
    assert reported.failures == ["5 of 9 cases"]
    run(1, fresh=True)
    assert studied[-1] == 0
