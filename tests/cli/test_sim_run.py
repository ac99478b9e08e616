"""`hostcc sim run`: the same JSON everywhere, finished runs, refusals."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hostcc.cli.main import main
from tests.sim.hand_made_trace import write_hand_made

pytestmark = pytest.mark.unit

DAYS = ("--days", "0.02")


def made(folder: Path, shuffle: int | None = None) -> Path:
    folder.mkdir()
    return write_hand_made(folder, shuffle)


def without_seconds(text: str) -> object:
    document = json.loads(text)
    for run in document["runs"]:
        assert set(run.pop("seconds")) == {"engine", "planning"}
    return document


def in_process(folder: Path, hash_seed: str) -> object:
    command = ["sim", "run", str(folder), *DAYS, "--schedulers", "ecmp,hostcc", "--json"]
    answer = subprocess.run(
        [sys.executable, "-m", "hostcc", *command],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        check=True,
        text=True,
    )
    return without_seconds(answer.stdout)


def test_the_same_json_with_another_hash_seed_and_order_of_rows(tmp_path: Path) -> None:
    one = in_process(made(tmp_path / "one"), "1")
    assert one == in_process(made(tmp_path / "other", shuffle=5), "2")
    assert isinstance(one, dict)
    assert one["schema"] == "hostcc.sim/1"
    assert [run["scheduler"] for run in one["runs"]] == ["ecmp", "hostcc"]


def test_finished_runs_are_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, out = made(tmp_path / "trace"), tmp_path / "out"
    command = ["sim", "run", str(folder), *DAYS, "--out", str(out), "--json", "--schedulers"]
    assert main([*command, "ecmp"]) == 0
    first = json.loads(capsys.readouterr().out)
    assert main([*command, "ecmp,alone"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert again["runs"][0] == first["runs"][0]  # with its seconds: it was not run again
    assert (out / "alone.jobs.csv").read_text().count("\n") == 4


def test_the_same_with_one_worker_and_two(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["sim", "run", str(made(tmp_path / "trace")), *DAYS, "--json"]
    options = ["--placement", "pod", "--seed", "3", "--queue-pairs", "2", "--scale", "2"]
    found = []
    for workers in ("1", "2"):
        assert main([*command, *options, "--workers", workers, "--schedulers", "ecmp,alone"]) == 0
        found.append(without_seconds(capsys.readouterr().out))
    assert found[0] == found[1]
    assert isinstance(found[0], dict)
    assert found[0]["options"]["placement"] == "pod"


def test_plots_are_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, out = made(tmp_path / "trace"), tmp_path / "out"
    assert main(["sim", "run", str(folder), *DAYS, "--out", str(out), "--schedulers", "alone"]) == 0
    assert "alone" in capsys.readouterr().out
    for name in ("utilisation", "jct"):
        assert (out / f"{name}.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--schedulers", "fifo"), "--schedulers: expected alone, ecmp"),
        (("--fabric", "torus"), "--fabric: expected released"),
        (("--days", "nan"), "--days"),
        (("--levels", "0"), "--levels"),
        (("--placement", "first"), "placement: expected trace, none"),
        (("--queue-pairs", "1.5"), "--queue-pairs: expected a whole number"),
        (("--scale", "0"), "--scale"),
        (("--error", "2"), "--error"),
        (("--failures", "now"), "failures: expected SECONDS"),
        (("--failures", "1:agg:900-900"), "failure: expected a connection of"),
        (("--workers", "0"), "--workers"),
        (("--workloads", "/nowhere.toml"), "/nowhere.toml"),
    ],
)
def test_wrong_options_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], said: str
) -> None:
    assert main(["sim", "run", str(write_hand_made(tmp_path)), *options]) != 0
    assert said in capsys.readouterr().err
