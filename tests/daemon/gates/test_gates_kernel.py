"""Turns end to end: jobs, agents and a fabric of namespaces; who waited for whom, and for how long.

Whether it pays is for the benchmark to say: here the machine may be busy.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hostcc.config.sections.shifts import ShiftsConfig

pytestmark = pytest.mark.kernel

RINGS = """
alone_iterations = 0
iterations = {iterations}
[fabric]
kind = "leaf-spine"
spines = 1
hosts_per_leaf = {hosts}
rate_mbit = 100
[[job]]
name = "one"
on = [{one}]
pattern = "allreduce"
compute_ms = 90
comm_ms = 40
jitter_percent = 20
[[job]]
name = "other"
on = [{other}]
pattern = "allreduce"
compute_ms = 90
comm_ms = 40
jitter_percent = 20
[[variant]]
name = "agents"
agent = {{ paths = {{ enabled = true }} }}
"""
ITERATIONS = (100, 300, 900)
"""Of the first try and of the next ones: on a busy machine jobs are known later."""
Status = dict[str, Any]


def lab(folder: Path, text: str) -> dict[str, Status]:
    """Run a scenario; the status of each agent at its end."""
    folder.mkdir()
    path = folder / "rings.toml"
    path.write_text(text)
    command = [sys.executable, "-m", "hostcc", "lab", "run", str(path)]
    command += ["--compare", "agents", "--out", str(folder)]
    subprocess.run(command, check=True, timeout=250, capture_output=True)
    found = json.loads((folder / "agents-1.status.json").read_text())
    return {host: status.get("status", status) for host, status in found.items()}


def until_turns(tmp_path: Path, text: Callable[[int], str]) -> dict[str, Status]:
    """Run it until jobs have waited for each other, longer at each try."""
    found: dict[str, Status] = {}
    for iterations in ITERATIONS:
        found = lab(tmp_path / str(iterations), text(iterations))
        if all(job["turns_waited"] for status in found.values() for job in gated(status)):
            return found
    raise AssertionError([gated(status) for status in found.values()])


def gated(status: Status) -> list[dict[str, Any]]:
    (part,) = (part for part in status["parts"] if part["name"] == "gates")
    assert part["state"] == "running", part["reason"]
    rows: list[dict[str, Any]] = part["gated"]
    return rows


def check(found: dict[str, Status], rivals: dict[str, list[str]], *, local: bool) -> None:
    for status in found.values():
        (part,) = (part for part in status["parts"] if part["name"] == "gates")
        assert part["local"] == local
        for row in gated(status):
            # At the end, noise may have made a job's period unsure.
            assert row["rivals"] in ([], rivals[row["job"]])
            share = ShiftsConfig().max_share
            assert 0 < row["held_s"] <= share * max(60.0, status["agent"]["uptime_s"])


def test_two_jobs_of_one_host_take_turns_without_gossip(tmp_path: Path) -> None:
    def text(iterations: int) -> str:
        on = '"h1", "h2"'
        return RINGS.format(iterations=iterations, hosts=1, one=on, other=on)

    found = until_turns(tmp_path, text)
    check(found, {"one": ["other"], "other": ["one"]}, local=True)


def test_jobs_of_different_hosts_take_turns_by_notes(tmp_path: Path) -> None:
    def text(iterations: int) -> str:
        hosts = {"one": '"h1", "h3"', "other": '"h2", "h4"'}
        return "gossip = true\n" + RINGS.format(iterations=iterations, hosts=2, **hosts)

    found = until_turns(tmp_path, text)
    check(found, {"one": ["other"], "other": ["one"]}, local=False)
