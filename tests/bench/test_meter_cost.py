"""What the byte meter costs: arithmetic, and one small measurement from end to end."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pytest

from hostcc.bench import meter_cost
from hostcc.bench.context import Context
from hostcc.bench.meter_agent import Report
from hostcc.bench.meter_cost import Sample, describe_churn, growth
from hostcc.bench.meter_stage import Stage


def sample(second: int, resident: int, files: int = 9) -> Sample:
    report = Report(0.001 * second, resident, files, 3, 0, 0, 0, 0, 0)
    return Sample(float(second), 1000 * second, report)


@pytest.mark.unit
def test_growth_is_of_medians() -> None:
    flat = [sample(n, 50_000_000 + (7_000_000 if n == 4 else 0)) for n in range(1, 10)]
    assert growth(flat, "resident_bytes") == 0
    rising = [sample(n, 1_000_000 * n) for n in range(1, 10)]
    assert growth(rising, "resident_bytes") == 6_000_000
    assert growth(rising, "open_files") == 0
    assert "9000 connections in 9 s" in describe_churn(rising)
    assert "grew by 6000 kB" in describe_churn(rising)
    assert not meter_cost._growth_goal(rising).met
    assert meter_cost._growth_goal(flat).met


@pytest.mark.unit
def test_options() -> None:
    parser = argparse.ArgumentParser()
    meter_cost.add_options(parser)
    args = parser.parse_args([])
    assert args.flows == (10, 1000, 10_000)
    assert args.jobs == (1, 10, 100)
    assert args.churn_minutes == 0


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


@pytest.mark.kernel
def test_churn_counts_what_it_makes() -> None:
    with Stage(1) as stage:
        stage.order("on")
        stage.churn(200)
        while stage.connections() < 60:
            pass
        report = stage.report()
    assert report.rows >= 1
    assert not stage.root.exists()
