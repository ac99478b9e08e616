"""`hostcc pcie`: drawing, shared links, refusals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hostcc.cli.main import main
from tests.pcie import servers

pytestmark = pytest.mark.unit


def test_draws_and_names_shared_links(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    top = servers.sysfs("p4d", tmp_path)
    words = ["pcie", "--sysfs", str(top), "--job", "a=0000:10:1c.0,0000:10:1b.0"]
    assert main([*words, "--job", "b=0000:10:1d.0,0000:10:1b.0"]) == 0
    out = capsys.readouterr().out
    assert "nic 0000:10:1b.0 8 GT/s x16 (15.8 GB/s)  <- a, b" in out
    assert out.splitlines()[-1].split() == ["0000:10:1b.0", "15.8", "a,", "b"]
    assert main([*words, "--job", "c=0000:90:1c.0,0000:90:1b.0"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "the jobs share no link"


def test_files_and_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for option, text in (("--nccl", servers.nccl("p5")), ("--hwloc", servers.hwloc("p5"))):
        path = tmp_path / "t.xml"
        path.write_text(text)
        assert main(["pcie", option, str(path), "--json", "--job", "a=0000:4f:00.0"]) == 0
        answer = json.loads(capsys.readouterr().out)
        assert answer["schema"] == "hostcc.pcie/1"
        assert sum(node["kind"] == "gpu" for node in answer["nodes"]) == 8
        assert answer["shared"] == {}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--sysfs", "/none"], "--sysfs: expected a copy of /sys"),
        (["--nccl", "/none"], "/none: expected a readable file, got: No such file"),
        (["--job", "a"], "expected NAME=DEVICES"),
        (["--job", "a=x"], "expected a bus id or device of this host"),
        (["--job", "a b=x"], "expected NAME=DEVICES"),
    ],
)
def test_refusals(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pcie", *words]) == 2
    printed = capsys.readouterr()
    assert message in printed.err
    assert printed.err.count("\n") == 1
