"""A few small cases through the benchmark."""

from __future__ import annotations

import argparse

import numpy as np
import pytest

from hostcc.bench import record, small_cases
from hostcc.bench.context import Context

pytestmark = pytest.mark.unit


def test_two_cases() -> None:
    args = argparse.Namespace(cases=2, seed=3, errors=(0, 20), processes=1)
    found = small_cases.run(args, Context(1, None))
    rows = {(row["error"], row["stage"], row["method"]): row for row in found.rows}
    assert {key[0] for key in rows} == {0, 20}
    assert all(0 < float(str(row["mean"])) <= 1.05 for row in found.rows)
    for stage in ("paths", "order", "levels", "pipeline"):
        assert float(str(rows[0, stage, "hostcc"]["mean"])) > 0.98
    assert len(found.parameters["each"]) == 2
    assert record.decode(record.encode(found)).benchmark == "small-cases"


def test_worst_tenth() -> None:
    assert small_cases.worst_tenth(np.arange(20.0)) == 0.5
    assert small_cases.worst_tenth(np.array([3.0])) == 3.0
