"""What an operator looks at, of a real agent with real jobs: history, gain, top and report."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hostcc.client import ask
from hostcc.errors import HostccError
from hostcc.lab import state
from tests.cli.test_report import checked
from tests.patience import until

pytestmark = pytest.mark.kernel

TWO = """
iterations = 100000
alone_iterations = 0
[[job]]
name = "a"
compute_ms = 40
comm_ms = 30
[[job]]
name = "b"
compute_ms = 40
comm_ms = 30
"""


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Path]:
    """The socket of the agent on the host that sends for job a."""
    path = tmp_path / "two.toml"
    path.write_text(TWO)
    words = [sys.executable, "-m", "hostcc", "lab", "run", str(path), "--compare", "hostcc"]
    with subprocess.Popen(
        words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, process_group=0
    ) as process:
        try:
            until(lambda: _socket_of(process.pid), "the lab", 90)
            found = _socket_of(process.pid)
            assert found is not None
            yield found
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(120)


def _socket_of(pid: int) -> Path | None:
    for lab in state.recorded():
        found = Path(lab.run_dir) / "h1" / "control.sock"
        if lab.pid == pid and found.exists():
            return found
    return None


def job(socket: Path) -> dict[str, Any]:
    """The row of job a; empty while there is none."""
    try:
        rows = ask(socket, "status")["jobs"]
    except HostccError:
        return {}
    return next((row for row in rows if row["name"] == "a"), {})


def command(socket: Path, *words: str) -> str:
    """What a command prints."""
    done = subprocess.run(
        [sys.executable, "-m", "hostcc", *words, "--socket", str(socket)],
        capture_output=True, text=True, check=False, timeout=120,
        env={**os.environ, "COLUMNS": "80", "LINES": "24"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_gain_over_mode_off_and_what_shows_it(agent: Path, tmp_path: Path) -> None:
    until(lambda: job(agent).get("recent", {}).get("iterations", 0) > 20, "iterations", 90)
    command(agent, "unfair", "off")
    until(lambda: job(agent).get("off_iterations"), "iterations in mode off", 120)
    off = job(agent)
    assert off["mode"] == "off"
    assert 0.05 < off["off_s"] < 0.5
    assert off["gain_over"] in (None, "alone")
    command(agent, "unfair", "mltcp")
    until(lambda: job(agent).get("gain_over") == "off", "the gain", 90)
    now = job(agent)
    assert now["alone_how"]
    assert 0.05 < now["alone_s"] < 0.5
    assert now["gain"] == pytest.approx(now["off_s"] / now["recent"]["mean_period_s"])

    shown = command(agent, "top", "--once").splitlines()
    row = next(line for line in shown if line.startswith("a "))
    assert "b/s" in row
    assert row.endswith("x")
    assert any(mark in row for mark in "▁▂▃▄▅▆▇█")

    out = tmp_path / "report.html"
    command(agent, "report", "--out", str(out))
    page = checked(out.read_text())
    assert "a" in page.text
    assert "Gbit/s sent" in page.text
    told = json.loads(command(agent, "top", "--json"))
    assert [one["mode"] for one in told["modes"]] == ["mltcp", "off", "mltcp"]
    assert max(rate or 0.0 for rate in told["jobs"][0]["sent"]) > 1e6
