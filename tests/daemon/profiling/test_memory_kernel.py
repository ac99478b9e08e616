"""A job that ran under one agent is known to the next one from its first bytes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemon.profiling.wired import QUIET, THERE, WiredHost
from tests.real import PATIENCE_S, until

pytestmark = pytest.mark.kernel

PERIOD_S, SIZE = 0.16, 1_000_000
TIMES = 100_000
"""Bursts: more than there can be until the test ends, which ends the sender."""
ALONE = f"{QUIET}[gossip]\nenabled = true\nkeys = ''\ninsecure = true\n"
ENOUGH = 0.7
"""Confidence from which a job counts as measured."""


@pytest.fixture
def host(tmp_path: Path, cgroup2: Path) -> Iterator[WiredHost]:
    made = WiredHost(tmp_path, cgroup2)
    yield made
    made.close()
    assert made.ours() == set()


def is_measured(host: WiredHost) -> bool:
    return (host.profile("train").get("confidence") or 0) >= ENOUGH


def memory(host: WiredHost) -> dict[str, object]:
    return next(part for part in host.json("status")["parts"] if part["name"] == "memory")


def test_a_job_is_remembered_over_a_restart_of_the_agent(host: WiredHost) -> None:
    agent = host.start(ALONE)
    job = host.sender(PERIOD_S, SIZE, TIMES, "", "train")
    until(lambda: is_measured(host) and memory(host)["jobs"] == 1, host.log, 2 * PATIENCE_S)
    assert host.detail("train")["remembered"] is None
    job.kill()
    job.wait()
    assert host.stop(agent) == 0
    host.start(ALONE)
    assert memory(host)["jobs"] == 1
    host.sender(PERIOD_S, SIZE, TIMES, "", "train")
    # It is planned by what was remembered until it is measured, which may take a moment or longer.
    words = "a job starts with what was learned before"
    until(lambda: words in host.log(), host.log, PATIENCE_S)
    until(lambda: is_measured(host), host.log, 2 * PATIENCE_S)
    until(lambda: host.detail("train")["remembered"] is None, host.log)
    until(lambda: host.profile("train").get("bytes_to", {}).keys() == {THERE}, host.log)
    assert host.json("verify")["differences"] == []


def test_an_unusable_file_is_no_obstacle(host: WiredHost) -> None:
    path = host.folder / "run" / "remembered-jobs.json"
    path.parent.mkdir()
    path.write_text("not JSON")
    host.start(ALONE)
    until(lambda: "nothing is remembered of earlier jobs" in host.log(), host.log)
    assert str(path) in str(memory(host)["reason"])
