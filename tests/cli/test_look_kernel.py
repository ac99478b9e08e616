"""What an operator looks at, of a real agent with real jobs: history, gain, top and report."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hostcc.client import ask
from hostcc.errors import HostccError
from hostcc.lab import state
from tests.cli.test_report import checked
from tests.patience import until

pytestmark = pytest.mark.kernel

LEAST_S, MOST_S = 0.05, 5.0
"""Of an iteration, seconds: the job's own 70 ms, and all for which a busy machine holds it up."""
PATIENCE_S = 180.0
"""Only bounds a failure."""
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
            until(lambda: _socket_of(process.pid), "the lab", PATIENCE_S)
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


def wait(socket: Path, true: Callable[[dict[str, Any]], bool], what: str) -> dict[str, Any]:
    """The first row of job a of which something is true."""
    row: dict[str, Any] = {}

    def found() -> bool:
        row.clear()
        row.update(job(socket))
        return true(row)

    until(found, lambda: f"{what}: {row}", PATIENCE_S)
    return row


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
    wait(agent, lambda row: row.get("recent", {}).get("iterations", 0) > 20, "iterations")
    command(agent, "unfair", "off")
    off = wait(agent, lambda row: bool(row.get("off_iterations")), "iterations in mode off")
    assert off["mode"] == "off"
    assert LEAST_S < off["off_s"] < MOST_S
    assert off["gain_over"] in (None, "alone")
    command(agent, "unfair", "mltcp")

    def gained(row: dict[str, Any]) -> bool:
        """Before its turn, the time alone is by the device's rate, which is not the fabric's."""
        return row.get("gain_over") == "off" and (row["alone_s"] or 0.0) > LEAST_S

    now = wait(agent, gained, "the gain")
    assert now["alone_how"]
    assert now["alone_s"] < MOST_S
    assert now["gain"] == pytest.approx(now["off_s"] / now["recent"]["mean_period_s"])

    def drawn() -> bool:
        shown = command(agent, "top", "--once").splitlines()
        row = next((line for line in shown if line.startswith("a ")), "")
        marks = any(mark in row for mark in "▁▂▃▄▅▆▇█")
        return "b/s" in row and row.endswith("x") and marks

    until(drawn, lambda: command(agent, "top", "--once"), PATIENCE_S)

    out = tmp_path / "report.html"
    command(agent, "report", "--out", str(out))
    page = checked(out.read_text())
    assert "a" in page.text
    assert "Gbit/s sent" in page.text
    told = json.loads(command(agent, "top", "--json"))
    assert [one["mode"] for one in told["modes"]] == ["mltcp", "off", "mltcp"]
    assert max(rate or 0.0 for rate in told["jobs"][0]["sent"]) > 1e6
