"""`hostcc sim describe`: figures, JSON, plots, refusals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hostcc.cli.main import main
from tests.sim.hand_made_trace import write_hand_made
from tests.sim.released_files import write

pytestmark = pytest.mark.unit


def described(folder: Path, capsys: pytest.CaptureFixture[str], *options: str) -> str:
    assert main(["sim", "describe", str(folder), *options]) == 0
    return capsys.readouterr().out


def test_figures_of_a_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = described(write_hand_made(tmp_path), capsys)
    lines = {" ".join(line.split()) for line in out.splitlines()}
    assert {
        "job rows 5 5180",
        "worker rows on known hosts 6 20493",
        "worker rows without resources 1",
        "hosts placed by rule 1",
        "jobs that can be replayed 4",
        "never ran 1 803",
        "jobs of up to 8 GPUs 60.0 % 57.0 %",
        "minutes, p50 12.5 4",
        "jobs below several ToRs 40.0 % 32.1 %",
        "active GPUs, max 36 1536",
        "jobs at risk, mean share 16.7 % 36.3 %",
        "GPUs at risk, max 32",
    } <= lines


def test_json_does_not_depend_on_the_order_of_rows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    other.mkdir()
    out = described(write_hand_made(one), capsys, "--json")
    answer = json.loads(out)
    assert answer["schema"] == "hostcc.sim-trace/1"
    assert answer["replayed"] == 4
    assert answer["left_out"] == {"never ran": 1}
    assert answer["profile"]["gpus_per_job"] == {"4": 3, "16": 2}
    assert described(write_hand_made(other, shuffle=3), capsys, "--json") == out


def test_plots_are_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = tmp_path / "deep" / "kept"
    out = described(write_hand_made(tmp_path), capsys, "--out", str(kept))
    names = ["at-risk.png", "description.json", "over-time.png", "sizes.png"]
    assert sorted(path.name for path in kept.iterdir()) == names
    assert all((kept / name).read_bytes()[1:4] == b"PNG" for name in names if name != names[1])
    assert json.loads((kept / names[1]).read_text())["schema"] == "hostcc.sim-trace/1"
    assert "written: " in out


FABRIC = """
name = "own"
nics = 4
rates = { nic = 200, agg = RATE }
hosts = [{ count = 2, tors = [0] }, { count = HOSTS, tors = [1] }]
tors = [{ count = 2, aggs = [0] }]
aggs = [{ count = 1 }]
"""


def test_another_fabric(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = write_hand_made(tmp_path)
    file = tmp_path / "fabric.toml"
    shares = []
    for rate in ("1", "1000000"):
        file.write_text(FABRIC.replace("RATE", rate).replace("HOSTS", "9"))
        document = json.loads(described(trace, capsys, "--fabric", str(file), "--json"))
        figures = {one["name"]: one["value"] for one in document["figures"]["over time"]}
        shares.append(figures["jobs at risk above ToRs, mean share"])
    assert shares[0] > shares[1] == 0
    assert main(["sim", "describe", str(trace), "--fabric", str(file), "--core", "1"]) == 2
    assert "--fabric: expected neither" in capsys.readouterr().err
    file.write_text(file.read_text().replace("count = 9", "count = 1"))
    assert main(["sim", "describe", str(trace), "--fabric", str(file)]) == 2
    assert "own: hosts: expected the trace's" in capsys.readouterr().err
    file.write_text(file.read_text().replace("nics = 4", "nics = 2"))
    assert main(["sim", "describe", str(trace), "--fabric", str(file)]) == 2
    assert "own: nics: expected 4" in capsys.readouterr().err


def test_a_trace_without_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, [], [], [])
    out = described(tmp_path, capsys, "--out", str(tmp_path / "kept"))
    assert "job rows" in out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--uplink", "0"], "--uplink: expected Gbit/s from 0.001 to 1e+06"),
        (["--core", "nan"], "--core: expected Gbit/s"),
        (["--out", "/dev/null/x"], "/dev/null"),
    ],
)
def test_refusals(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], words: str
) -> None:
    assert main(["sim", "describe", str(write_hand_made(tmp_path)), *options]) != 0
    error = capsys.readouterr().err
    assert words in error
    assert len(error.splitlines()) == 1


def test_another_schema_and_no_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", "describe", str(tmp_path)]) == 2
    assert "topo.csv: expected a readable file" in capsys.readouterr().err
    (write_hand_made(tmp_path) / "job.csv").write_text("id,job_name\n")
    assert main(["sim", "describe", str(tmp_path)]) == 2
    assert "job.csv:1: expected the column" in capsys.readouterr().err


def test_a_trace_is_generated_where_there_is_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_hand_made(tmp_path)
    assert main(["sim", "generate", str(tmp_path)]) == 2
    assert "expected no topo.csv there" in capsys.readouterr().err
    for seed in ("-1", "x", "1" * 19):
        assert main(["sim", "generate", str(tmp_path / "other"), f"--seed={seed}"]) == 2
        assert "--seed: expected a whole number" in capsys.readouterr().err
    assert not (tmp_path / "other").exists()
