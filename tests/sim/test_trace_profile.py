"""Marginal counts of a trace that was made by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from hostcc.sim.released import read_rows
from hostcc.sim.trace_profile import profile_of
from tests.sim.hand_made_trace import write_hand_made
from tests.sim.released_files import job, write

pytestmark = pytest.mark.unit


def test_counts(tmp_path: Path) -> None:
    found = profile_of(read_rows(write_hand_made(tmp_path)))
    assert found.rows == {
        "job": 5,
        "worker": 8,
        "topo": 5,
        "jobs_in_worker": 6,
        "jobs_in_both": 5,
        "jobs_with_gpus": 5,
        "worker_rows_with_known_host": 6,
    }
    assert list(found.status.items()) == [("Succeeded", 4), ("Stopped", 1)]
    assert list(found.model.items()) == [("llama", 4), ("GPT-7b", 1)]
    assert found.never_ran == 1
    assert found.gpus_per_job == {4: 3, 16: 2}
    assert found.gpus_per_worker == {0: 1, 4: 3, 8: 4}
    assert found.workers_per_job == {1: 3, 2: 2}
    assert found.hosts_per_job == {0: 1, 1: 2, 2: 2}
    assert found.tors_per_job == {0: 2, 1: 1, 2: 2}
    assert found.pods_per_job == {0: 2, 1: 3}
    assert found.run_minutes["samples"] == 4
    assert (found.run_minutes["min"], found.run_minutes["max"]) == (0, 30)
    assert found.run_minutes["p50"] == 12.5
    assert found.queue_minutes["samples"] == 4
    assert found.queue_minutes["max"] == 7


def test_times_that_run_backwards_are_no_durations(tmp_path: Path) -> None:
    early = job(1, gmt_job_running="2023/7/15 0:30", gmt_job_finished="2023/7/15 0:20")
    found = profile_of(read_rows(write(tmp_path, [early], [], [])))
    assert found.run_minutes == found.queue_minutes == {"samples": 0}
