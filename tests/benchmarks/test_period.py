"""The benchmark of the iteration period, with few series."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pytest

import hostcc.measure
from benchmarks import period, period_told, synthetic
from benchmarks.context import Context
from benchmarks.period_rivals import correlation, fourier
from benchmarks.record import Record, Spread
from hostcc.measure.series import series

pytestmark = pytest.mark.unit

CLASSES = ("one burst", "six equal bursts", "steady transfer")


def measured(out: Path | None, *, report: bool = False) -> Record:
    args = argparse.Namespace(series=8, classes=CLASSES, told=False)
    return period.run(args, Context(runs=2, out=out, report_only=report))


def median(record: Record, name: str, method: str, key: str) -> float:
    value = next(line for line in record.rows if (line["class"], line["method"]) == (name, method))[
        key
    ]
    assert isinstance(value, Spread)
    assert value.median is not None
    return value.median


def test_another_detector_is_measured_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured(tmp_path)
    monkeypatch.setattr(period, "measure", lambda *_, **__: pytest.fail("it is kept"))
    measured(tmp_path)
    (tmp_path / "period.py").write_text("another\n")
    monkeypatch.setattr(hostcc.measure, "__path__", [str(tmp_path)])
    with pytest.raises(pytest.fail.Exception, match="it is kept"):
        measured(tmp_path)


def test_table_goals_and_plot(tmp_path: Path) -> None:
    record = measured(tmp_path)
    assert len(record.rows) == len(CLASSES) * len(period.METHODS)
    assert median(record, "one burst", "hostcc", "both") == 100
    ours, theirs = (
        median(record, "six equal bursts", method, "both") for method in ("hostcc", "fft")
    )
    assert ours > theirs + 20
    assert median(record, "steady transfer", "hostcc", "found") == 0
    assert all(goal.met for goal in record.goals if goal.scope != "one burst")
    assert measured(tmp_path, report=True).rows == record.rows
    [path] = period.draw(record, tmp_path)
    assert path.stat().st_size > 1000


def test_seeds_make_the_figures() -> None:
    one, same, other = (
        {
            method: (figures.found, figures.period, figures.p99)
            for method, figures in period.measure("contention", 6, number).items()
        }
        for number in (1, 1, 2)
    )
    assert one == same
    assert one != other


def test_who_is_told_the_period_is_right_unless_there_is_none() -> None:
    found = period.measure("data loading", 6, 1, told=True)
    for method in period_told.TOLD:
        assert found[method].period == 100
        assert (found[method].both or 0.0) >= 80
    assert set(period.measure("one burst", 2, 1)) == set(period.METHODS)
    nothing = period.measure("steady transfer", 2, 1, told=True)
    assert all(nothing[method].found == 0 for method in period_told.TOLD)


def test_told_methods_are_rows_of_the_table() -> None:
    args = argparse.Namespace(series=2, classes=("one burst",), told=True)
    record = period.run(args, Context(runs=1, out=None))
    assert [line["method"] for line in record.rows] == [*period.METHODS, *period_told.TOLD]


def test_the_others_find_a_plain_burst() -> None:
    made = series(np.tile(np.where(np.arange(40) < 20, 900, 0), 12), None, 1_000_000)
    assert fourier(made) == pytest.approx(0.04, rel=0.01)
    found = correlation(made)
    assert found is not None
    assert found / 0.04 == pytest.approx(round(found / 0.04), abs=0.01)
    noise = synthetic.bulk(np.random.default_rng(1)).series
    assert fourier(noise) is None
    assert correlation(noise) is None
    assert fourier(series([1], None, 10)) is correlation(series([1], None, 10)) is None


@pytest.mark.parametrize("name", synthetic.PERIODIC)
def test_generated_series_hold_what_they_claim(name: str) -> None:
    """Between the first and the last start: iterations, and their bytes at least."""
    sample = synthetic.PERIODIC[name][1](np.random.default_rng(5))
    assert sample.period_s
    assert sample.iteration_bytes
    assert len(sample.starts_s) == 11
    bins = (sample.starts_s / sample.series.bin_s).round().astype(int)
    sent = sample.series.total[bins[0] : bins[-1]].sum()
    clean = synthetic.PERIODIC[name][0] or name in ("jitter 3 %", "stragglers 10 %", "contention")
    assert sent >= 9.5 * sample.iteration_bytes
    if clean:
        assert sent <= 10.5 * sample.iteration_bytes
    again = synthetic.PERIODIC[name][1](np.random.default_rng(5))
    assert np.array_equal(again.series.tx, sample.series.tx)
