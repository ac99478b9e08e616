"""`hostcc profile`: recordings analysed again, and what a person is shown."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from hostcc.answers.jobs import DetailedJob, Profile
from hostcc.cli import jobs, profile
from hostcc.cli.main import main
from hostcc.daemon.profiling.profiles import summary
from hostcc.errors import HostccError
from hostcc.measure.series_file import Meta, Recording, save
from tests.daemon.profiling.test_gauges import profiled
from tests.measure.jobs import MS, regular

pytestmark = pytest.mark.unit


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """100 ms, 40,000 bytes."""
    made, path = regular(100, 20), tmp_path / "job.npz"
    save(path, Recording(Meta(job="a", bin_ns=MS, start_ns=0), made))
    return path


def test_a_recording_is_analysed_the_same_each_time(
    recording: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answers = []
    for _ in range(2):
        assert main(["profile", "--replay", str(recording), "--json"]) == 0
        answers.append(json.loads(capsys.readouterr().out))
    assert answers[0] == answers[1]
    found = answers[0]["analysis"]
    assert found["period_s"] == pytest.approx(0.1, rel=0.01)
    assert found["bytes_per_iteration"] == pytest.approx(40_000, rel=0.01)
    assert answers[0]["circle"] is not None


def test_what_a_person_is_shown(recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", "--replay", str(recording)]) == 0
    first, *rest = capsys.readouterr().out.splitlines()
    assert first == "job a, analysis of the recorded series"
    assert any("period" in line and "100" in line for line in rest)


def test_it_is_drawn(recording: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    out = tmp_path / "a.svg"
    assert main(["profile", "--replay", str(recording), "--plot", str(out)]) == 0
    assert out.read_text().startswith("<?xml")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], "expected either JOB or --replay FILE"),
        (["a", "--replay", "x.npz"], "expected either JOB or --replay FILE"),
        (["../a"], "JOB: expected"),
        (["--replay", "x.npz", "--record", "y.npz"], "--record: expected with JOB"),
        (["--replay", "/nowhere/x.npz"], "/nowhere/x.npz"),
    ],
)
def test_words_that_make_no_sense(
    words: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["profile", *words]) == 2
    error = capsys.readouterr().err
    assert expected in error
    assert len(error.strip().splitlines()) == 1


def test_a_job_that_was_not_measured_says_why() -> None:
    answer = Profile(job="a", profile=None, profile_reason="no traffic of a was seen yet")
    assert profile.lines(answer) == ["job a", "  not measured: no traffic of a was seen yet"]


def test_what_is_assumed_of_unknown_work_is_told() -> None:
    blind = Profile(job="a", profile=summary(profiled("a", None)))
    (line,) = [line for line in profile.lines(blind) if "unknown:" in line and " W " in line]
    assert line.endswith(
        "assumed: 1 PFLOP/s while it computes, or the mean of its hosts that measure it"
    )
    assert not any("assumed" in line for line in jobs.remarks(detailed("a", 5e12)))
    assert any("assumed: 1 PFLOP/s" in line for line in jobs.remarks(detailed("a", None)))


def detailed(name: str, flops: float | None) -> DetailedJob:
    figures = summary(profiled(name, flops))
    return DetailedJob(
        name=name,
        how="hostcc run",
        weight=1.0,
        managed=True,
        unmanaged_reason=None,
        profiling=False,
        profile_reason=None,
        slot=1,
        cgroup=None,
        pids=[],
        local_ports=[],
        remote_ports=[],
        parameters=None,
        profile=figures,
    )


def test_a_series_that_the_agent_does_not_have(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    answer = {"job": "a", "recording": None, "profile_reason": "measure.enabled is false"}
    monkeypatch.setattr(profile, "ask", lambda *_, **__: answer)
    args = argparse.Namespace(
        job="a", replay=None, record=tmp_path / "a.npz", plot=None, json=False, socket=tmp_path
    )
    with pytest.raises(HostccError, match=r"measure\.enabled is false"):
        profile.run(args)
    assert not (tmp_path / "a.npz").exists()
