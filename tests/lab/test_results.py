"""The record, its table and its plots, from made-up measurements."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from hostcc.lab import plots, report, results
from hostcc.lab.scenario import find, load
from hostcc.lab.statistics import summarise


def made_up(series: str | None) -> results.Results:
    scenario = load(find("two-jobs"))
    seconds = [0.3] * 5 + [0.241] * 10
    starts = [0.3 * number for number in range(15)]
    jobs = [
        results.JobResult(job.name, summarise(seconds, 0.24, 0.24), seconds, starts, 3, 1000)
        for job in scenario.job
    ]
    run = results.RunResult(
        started_at_s=100.0,
        jobs=jobs,
        converged_after=5,
        bottleneck={"right": results.QueueResult(990, 9, 10, 1.0)},
        marked_packets=0,
        background=[],
        agents=[],
        events=[results.EventResult(1.0, "unfair off", "h1: no answer")],
        series=series,
    )
    variant = results.VariantResult("cubic", {"job-a": 0.24}, {"job-a": [0.24]}, [run, run])
    machine = results.this_machine()
    return results.Results("two-jobs", scenario, 15, [variant], machine)


def test_record_reads_back() -> None:
    record = made_up(None)
    assert results.decode(results.encode(record)) == record


def test_other_versions_are_refused() -> None:
    text = results.encode(made_up(None)).replace(b'"version": 1', b'"version": 2')
    with pytest.raises(ValueError, match="version 1"):
        results.decode(text)
    with pytest.raises(ValueError, match="version 1"):
        results.decode(b"[]")


def test_table_fits_a_narrow_terminal_and_names_problems() -> None:
    out = io.StringIO()
    report.show(made_up(None), Console(file=out, width=80))
    text = out.getvalue()
    assert max(map(len, text.splitlines())) <= 80
    for word in ("cubic", "job-b", "1.086", "5/5", "1.00", "h1: no answer"):
        assert word in text


def test_plots_are_drawn(tmp_path: Path) -> None:
    samples = np.arange(200)
    np.savez(
        tmp_path / "s.npz",
        times=100 + 0.02 * samples,
        ports=np.array(["h1", "h2", "h3", "h4"]),
        bytes=np.stack([samples * 0, samples * 9000, samples * 0, samples * 5000], axis=1),
    )
    record = made_up("s.npz")
    found = plots.job_rates(record, record.variants[0], tmp_path)
    assert found is not None
    times, rates = found
    assert times[0] == pytest.approx(0.01)
    assert rates[0].tolist() == pytest.approx([3.6, 2.0])
    written = plots.draw(record, tmp_path)
    assert [path.name for path in written] == ["bandwidth.png", "cdf.png", "iterations.png"]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in written)
