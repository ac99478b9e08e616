"""What the byte meter costs: arithmetic, and one small measurement from end to end."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pytest

from benchmarks import meter_cost
from benchmarks.context import Context
from benchmarks.meter_cost import losses_of


@pytest.mark.unit
def test_losses_are_of_two_pairs_each() -> None:
    assert losses_of([90.0, 100.0, 50.0], [100.0, 100.0, 100.0]) == pytest.approx([5.0, 50.0])


@pytest.mark.unit
def test_options() -> None:
    parser = argparse.ArgumentParser()
    meter_cost.add_options(parser)
    args = parser.parse_args([])
    assert args.flows == (10, 1000, 10_000)
    assert args.jobs == (1, 10, 100)


@pytest.mark.kernel
def test_a_small_measurement(tmp_path: Path) -> None:
    parser = argparse.ArgumentParser()
    meter_cost.add_options(parser)
    args = parser.parse_args(["--flows", "6", "--jobs", "3", "--pairs", "1", "--seconds", "0.2"])
    record = meter_cost.run(args, Context(runs=1, out=tmp_path))
    assert record.failures == []
    (row,) = record.rows
    medians: dict[str, Any] = {k: getattr(v, "median", v) for k, v in row.items()}
    assert (medians["flows"], medians["jobs"]) == (6, 3)
    assert medians["without_bps"] > 0
    assert medians["with_bps"] > 0
    assert medians["call_ns"] > 0
    # Three jobs with two destinations each, and what those see of the sending side.
    assert medians["rows"] == 9
    # Finished cases are taken up again.
    assert meter_cost.run(args, Context(runs=1, out=tmp_path, report_only=True)).rows == [row]
