"""Connections that come and go: arithmetic, and a few seconds of it."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from benchmarks import meter_churn
from benchmarks.context import Context
from benchmarks.meter_churn import Sample, growth, judge


def sample(second: int, resident: int, files: int = 9) -> Sample:
    return Sample(float(second), 1000 * second, 0.5, resident, 4096, files, 3, 0)


@pytest.mark.unit
def test_growth_is_of_medians() -> None:
    flat = [sample(n, 50_000_000 + (7_000_000 if n == 4 else 0)) for n in range(1, 10)]
    assert growth(flat, "resident_bytes") == 0
    assert all(verdict.met for verdict in judge(flat))
    rising = [sample(n, 1_000_000 * n, files=n) for n in range(1, 10)]
    assert growth(rising, "resident_bytes") == 6_000_000
    assert [v.goal.split()[0] for v in judge(rising) if not v.met] == [
        "resident_bytes", "open_files"
    ]  # fmt: skip


@pytest.mark.kernel
def test_a_few_seconds(tmp_path: Path) -> None:
    parser = argparse.ArgumentParser()
    meter_churn.add_options(parser)
    args = parser.parse_args(["--minutes", "0.05", "--rate", "100"])
    record = meter_churn.run(args, Context(runs=1, out=tmp_path))
    assert record.failures == []
    last = record.rows[-1]
    assert isinstance(last["connections"], int)
    assert last["connections"] >= 100
    # A job with one destination of eight so far at least, and the sink's side of it.
    assert isinstance(last["rows"], float | int)
    assert last["rows"] >= 2
    assert isinstance(last["map_bytes"], float | int)
    assert last["map_bytes"] > 1 << 20
    again = meter_churn.run(args, Context(runs=1, out=tmp_path, report_only=True))
    assert again.rows == record.rows
