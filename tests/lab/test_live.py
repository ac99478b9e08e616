"""What is watched while a lab runs, and what is drawn of it."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from hostcc.cli import lab_live
from hostcc.cli.lab_live import LiveDrawing, bars, frame, verdict
from hostcc.lab import live_plot, scenario
from hostcc.lab.errors import LabError
from hostcc.lab.live import (
    INTERVAL_S,
    MAX_SAMPLES,
    WINDOW_S,
    Floats,
    LiveRun,
    overlap,
    receiving_ports,
)
from hostcc.lab.runner import network_of

pytestmark = pytest.mark.unit

PERIOD = 20
"""Samples of an iteration; a job sends in half of them."""


def run(seconds: float, apart_from: float, jobs: int = 2) -> LiveRun:
    """Jobs that send at the same time, and in turns from some time on."""
    made = LiveRun("hostcc", {f"job-{at}": [f"h{at}"] for at in range(jobs)})
    sent = [0.0] * jobs
    for sample in range(round(seconds / INTERVAL_S) + 1):
        at = sample * INTERVAL_S
        made.add(at, {f"h{job}": int(sent[job]) for job in range(jobs)})
        for job in range(jobs):
            late = PERIOD // 2 * job if at >= apart_from else 0
            if (sample + late) % PERIOD < PERIOD // 2:
                sent[job] += 25e6 * INTERVAL_S
    return made


def test_rates_are_those_of_each_jobs_ports() -> None:
    made = LiveRun("x", {"a": ["h1", "h3"], "b": ["h2"]})
    made.add(10.0, {"h1": 0, "h2": 0, "h3": 0})
    made.add(10.5, {"h1": 100, "h2": 50, "h3": 300})
    times, rates = made.rates()
    assert times.tolist() == [0.5]
    assert rates.tolist() == [[800.0, 100.0]]
    assert made.rates(seconds=0.0)[1].shape == (0, 2)
    made.add(11.0, {})  # a switch that cannot be read
    assert made.rates()[1].shape == (2, 2)


def test_what_is_kept_is_bounded() -> None:
    made = LiveRun("x", {"a": ["h1"]})
    for sample in range(MAX_SAMPLES + 5):
        made.add(sample * INTERVAL_S, {"h1": sample})
    assert len(made.rates()[0]) == MAX_SAMPLES - 1


def test_jobs_that_are_pulled_apart_stop_to_send_at_once() -> None:
    found = run(8.0, apart_from=4.0).overlap()
    assert found.times[0] == WINDOW_S / 2
    assert found.part[found.times < 3.9] == pytest.approx(1.0)
    assert found.part[(found.times > 4.6) & (found.times < 7.9)] == pytest.approx(0.0, abs=0.1)
    assert not len(run(3.0, 9.0, jobs=1).overlap().part)  # nobody to send at once with


def test_windows_in_which_nobody_sends_are_unknown() -> None:
    times: Floats = np.arange(1, 101, dtype=np.float64) * INTERVAL_S
    rates = np.zeros((100, 2))
    rates[:10] = 5e6
    part = overlap(times, rates).part
    assert part[0] == 1.0
    assert np.isnan(part[1:]).all()


def test_the_verdict() -> None:
    assert verdict(run(8.0, 4.0)) == (
        "hostcc: jobs sent at once 100% of the time at first, 0% at the end"
    )
    assert "too short to tell" in verdict(run(1.0, 0.5))
    assert "too short to tell" in verdict(LiveRun("x", {"a": ["h1"], "b": ["h2"]}))


def test_bars() -> None:
    values = np.array([0.0, 0.25, 0.5, 1.0])
    assert bars(values, 4, 2, 1.0) == ["   █", " ▄██"]
    assert bars(values, 2, 1, 1.0) == ["▄█"]
    assert bars(values[:0], 3, 2, 0.0) == ["   ", "   "]


@pytest.mark.parametrize("width", [20, 60, 80, 200])
@pytest.mark.parametrize("height", [6, 24, 60])
@pytest.mark.parametrize("jobs", [1, 2, 12])
def test_a_frame_fits_the_screen(width: int, height: int, jobs: int) -> None:
    lines = [line.plain for line in frame("hostcc", 3, 9, run(6.0, 3.0, jobs), width, height)]
    assert len(lines) < height
    assert max(map(len, lines)) <= width
    assert lines[0] == "hostcc: iteration 3 of 9"[:width]


def test_a_frame_shows_the_moment() -> None:
    lines = [line.plain for line in frame("hostcc", 3, 9, run(8.0, 4.0), 100, 24)]
    assert re.match(r"job-0  \d+ Mbit/s", lines[1])
    assert "█" in lines[4]
    # In each column of the screen one of the jobs sends, and never both.
    columns = [
        {one != " " for one in pair} for pair in zip(lines[4][41:], lines[8][41:], strict=False)
    ]
    assert all(one == {True, False} for one in columns)
    assert lines[-1].startswith("send at once:   0% of the time, since the start █")
    assert [line.plain for line in frame("hostcc, job-0 alone", 3, 9, None, 100, 24)] == [
        "hostcc, job-0 alone: iteration 3 of 9"
    ]


def test_off_a_terminal_nothing_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    monkeypatch.setattr(sys, "stderr", out)
    drawing = LiveDrawing()
    with drawing.shown() as tell:
        drawing.runs.append(run(8.0, 4.0))
        tell("hostcc", 1, 2)
    assert out.getvalue() == ""
    assert drawing.frame(80, 24)[0].plain == "hostcc: iteration 1 of 2"


def test_the_picture(tmp_path: Path) -> None:
    out = live_plot.draw([run(8.0, 4.0), run(1.0, 0.0, jobs=1)], tmp_path / "live.png")
    assert out.read_bytes().startswith(b"\x89PNG")
    assert out.stat().st_size > 10_000
    with pytest.raises(LabError, match="nothing was watched"):
        live_plot.draw([], out)
    with pytest.raises(LabError, match="No such file"):
        live_plot.draw([run(2.0, 1.0)], tmp_path / "none" / "x.png")


def test_ports_of_the_hosts_that_receive() -> None:
    two = scenario.load(scenario.find("two-jobs"))
    assert receiving_ports(network_of(two), two.job) == {"job-a": ["h2"], "job-b": ["h4"]}
    assert lab_live.MAX_ROWS >= lab_live.ROWS
