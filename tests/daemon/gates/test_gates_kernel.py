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

JOBS = 2
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
ITERATIONS = (100, 400)
"""Of the first try and of the next: on a busy machine jobs are known later."""
LAB_S = 800.0
Status = dict[str, Any]


def lab(folder: Path, text: str) -> list[Status]:
    """Run a scenario; the status of each agent at its end."""
    folder.mkdir()
    path = folder / "rings.toml"
    path.write_text(text)
    command = [sys.executable, "-m", "hostcc", "lab", "run", str(path)]
    command += ["--compare", "agents", "--out", str(folder)]
    subprocess.run(command, check=True, timeout=LAB_S, capture_output=True)
    found = json.loads((folder / "agents-1.status.json").read_text())
    return [status.get("status", status) for status in found.values()]


def waited(status: Status) -> tuple[int, float]:
    """Turns and seconds, of all jobs that the agent had."""
    (part,) = (part for part in status["parts"] if part["name"] == "gates")
    assert part["state"] == "running", part["reason"]
    return part["turns_waited"], part["held_s"]


def check(tmp_path: Path, text: Callable[[int], str]) -> None:
    """Jobs wait for each other, on every host, and not for longer than they may."""
    found: list[Status] = []
    for iterations in ITERATIONS:
        found = lab(tmp_path / str(iterations), text(iterations))
        # A turn counts from its begin, its time once it is over.
        if all(waited(status)[1] > 0 for status in found):
            break
    for status in found:
        turns, held_s = waited(status)
        assert turns > 0
        most_s = JOBS * ShiftsConfig().max_share * max(60.0, status["agent"]["uptime_s"])
        assert 0 < held_s <= most_s


@pytest.mark.timeout(1800)
def test_two_jobs_of_one_host_take_turns_without_gossip(tmp_path: Path) -> None:
    def text(iterations: int) -> str:
        on = '"h1", "h2"'
        return RINGS.format(iterations=iterations, hosts=1, one=on, other=on)

    check(tmp_path, text)


@pytest.mark.timeout(1800)
def test_jobs_of_different_hosts_take_turns_by_notes(tmp_path: Path) -> None:
    def text(iterations: int) -> str:
        hosts = {"one": '"h1", "h3"', "other": '"h2", "h4"'}
        return "gossip = true\n" + RINGS.format(iterations=iterations, hosts=2, **hosts)

    check(tmp_path, text)
