"""Every benchmark with next to nothing to do, on the real kernel."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import record
from benchmarks.mltcp_restart import CASES

pytestmark = pytest.mark.kernel

SMALL = ("--runs", "1")
PATIENCE_S = 400
"""Twice of it is less than what a kernel test may take."""


def bench(out: Path, name: str, *extra: str) -> dict[str, Any]:
    """Run a benchmark in a process of its own, and once more from what it kept."""
    command = [sys.executable, "-m", "hostcc", "bench", name, "--out", str(out), "--json"]
    command += [*SMALL, *extra]
    done = subprocess.run(command, capture_output=True, check=False, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr.decode() + done.stdout.decode()
    assert done.stderr == b""
    again = subprocess.run(
        [*command, "--report"], capture_output=True, check=False, timeout=PATIENCE_S
    )
    assert json.loads(again.stdout)["rows"] == json.loads(done.stdout)["rows"]
    assert record.decode(done.stdout).benchmark == name
    assert (out / f"{name}.json").read_bytes() == again.stdout
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["failures"] == []
    assert found["rows"]
    return found


def test_mltcp(tmp_path: Path) -> None:
    # Of three alone the median counts: one that the machine delays is no measure.
    extra = ("--scenarios", "two-jobs", "--flows", "2", "--iterations", "3", "--alone", "3")
    found = bench(tmp_path, "mltcp", *extra, "--variants", "hostcc,cubic")
    assert [row["variant"] for row in found["rows"]] == ["hostcc", "cubic"]
    assert all(row["mean"]["median"] > 0.9 for row in found["rows"])
    assert {goal["scope"] for goal in found["goals"]} == {"two-jobs-2"}
    assert (tmp_path / "mltcp.png").stat().st_size > 1000
    for name in ("results.json", "bandwidth.png", "cdf.png"):
        assert (tmp_path / "two-jobs-2" / name).stat().st_size > 1000


def test_mltcp_sweep(tmp_path: Path) -> None:
    extra = ("--scenarios", "two-jobs", "--flows", "1", "--iterations", "3", "--alone", "0")
    found = bench(tmp_path, "mltcp-sweep", *extra, "--quick", "--factors", "arrivals")
    assert [row["value"] for row in found["rows"]] == ["staggered"] * 2
    assert len(found["goals"]) == 1


def test_mltcp_neighbours(tmp_path: Path) -> None:
    # It sends 40, and makes up for what it was late: too many right after the begin, but never
    # as many as are counted twice.
    extra = ("--scenarios", "with-udp", "--flows", "1", "--iterations", "12", "--alone", "0")
    found = bench(tmp_path, "mltcp-neighbours", *extra)
    assert all(10 < row["background_mbit"]["median"] < 70 for row in found["rows"])


def test_mltcp_toggle(tmp_path: Path) -> None:
    extra = ("--flows", "1", "--iterations", "9", "--alone", "0", "--variants", "hostcc")
    found = bench(tmp_path, "mltcp-toggle", *extra)
    assert [row["part"] for row in found["rows"]] == ["mltcp", "off", "mltcp again"]


def test_mltcp_kill(tmp_path: Path) -> None:
    found = bench(tmp_path, "mltcp-kill", "--flows", "2", "--iterations", "8")
    rows = {row["what"]: row["measured"] for row in found["rows"]}
    assert rows["connections open at the kill"]["median"] == 32 + 4
    assert rows["connections broken"]["median"] == 0
    assert rows["congestion control of new sockets before"].startswith("hcc_")
    assert rows["and after"] == "cubic"
    assert rows["congestion controls left registered"]["median"] == 0


def test_mltcp_restart(tmp_path: Path) -> None:
    # More than the first ten, which do not count, also of a job that is behind.
    found = bench(tmp_path, "mltcp-restart", "--flows", "2", "--iterations", "20", "--later", "2")
    assert [row["case"] for row in found["rows"]] == list(CASES)
    assert all(row["after"]["median"] > 0 for row in found["rows"])


def test_ack_cost(tmp_path: Path) -> None:
    # Who reads late acknowledges more at once: there are far more than 1000 of so many.
    extra = ("--flows", "2", "--iterations", "4", "--controls", "pass,hostcc,gated")
    found = bench(tmp_path, "ack-cost", *extra, "--rounds", "2", "--seconds", "0.1")
    rows = {row["control"]: row for row in found["rows"]}
    assert len(rows) == 5 + 4
    for name, row in rows.items():
        if "unshaped" in name:
            for flows in (1, 8):
                assert row[f"bps_{flows}"]["median"] > 1e6
                assert len(row[f"of_cubic_{flows}"]["values"]) == 2
        elif "difference" not in name:
            assert row["acks"]["median"] > 1000
            assert row["ns"]["median"] > 1
    assert len(found["goals"]) == 3 * 2


def test_agent_cost(tmp_path: Path) -> None:
    found = bench(tmp_path, "agent-cost", "--open", "0,50", "--seconds", "1")
    idle, busy = found["rows"]
    assert (idle["flows_seen"]["median"], busy["flows_seen"]["median"]) == (0, 50)
    assert idle["resident_bytes"]["median"] > 1 << 20
    assert busy["cpu_percent"]["median"] > 0


def test_agent_cost_while_it_gossips(tmp_path: Path) -> None:
    extra = ("--open", "1", "--jobs", "2", "--learn", "8", "--seconds", "1", "--gossip")
    found = bench(tmp_path, "agent-cost", *extra)
    _, busy = found["rows"]
    assert (busy["peers_alive"]["median"], busy["jobs_known"]["median"]) == (1, 2)
