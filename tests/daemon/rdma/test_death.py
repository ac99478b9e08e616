"""An agent that is killed: its jobs do as if nobody told them anything, within the bound.

Absent hardware: the job posts to a stand-in for libibverbs (tests/verbs/native/fake_verbs.c).
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from hostcc.verbs.build import VERBS_HEADER
from hostcc.verbs.process_counts import read_counts
from tests.verbs.test_shim_native import PATIENCE_S, end, program, start

__all__ = ["program"]
pytestmark = [
    pytest.mark.unit,
    pytest.mark.skipif(not VERBS_HEADER.exists(), reason="no libibverbs-dev; tools/setup gets it"),
    pytest.mark.slow,
]


def sent(prefix: Path) -> int:
    return sum(qp.bytes for one in read_counts(prefix) for qp in one.qps)


def test_kill_9(program: Path, tmp_path: Path) -> None:
    """Posts are held back to 1 MB/s while the agent lives, and are not when it is dead."""
    holder = subprocess.Popen(
        [sys.executable, "-m", "tests.daemon.rdma.holder", str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "ready\n"
    places = (tmp_path / "plan", tmp_path / "qp", tmp_path / "semaphores")
    process = start(program, places, PATIENCE_S, 1)
    try:
        while not (before := sent(places[1])) and process.poll() is None:
            time.sleep(0.1)
        assert before < 50e6
        holder.kill()
        holder.wait()
        holder.stdout.close()
        # 100,000 posts of 4 KiB: held back they take 400 s.
        while sent(places[1]) < before + 420e6 and process.poll() is None:
            time.sleep(0.1)
    finally:
        holder.kill()
        process.terminate()
        report = end(process)
    assert report["errors"] == 0
    assert report["posted"] > 100_000
