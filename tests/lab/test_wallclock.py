"""A clock that one process sees: it can be stepped meanwhile, and others' stay."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hostcc.lab.wallclock import WallClock

LOOKS = """
import sys, time
for _ in sys.stdin:
    print(time.time(), time.monotonic(), flush=True)
"""
APART_S = 1000.0
"""More than looking takes."""


@pytest.mark.kernel
def test_one_process_sees_it_step(tmp_path: Path) -> None:
    clock = WallClock(tmp_path / "clock")
    with subprocess.Popen(
        [sys.executable, "-c", LOOKS], env={**os.environ, **clock.environment},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        for ahead_s in (0, 3600, -40_000, 0):
            clock.step(ahead_s)
            process.stdin.write("look\n")
            process.stdin.flush()
            wall, monotonic = map(float, process.stdout.readline().split())
            assert abs(wall - ahead_s - time.time()) < APART_S
            assert abs(monotonic - time.monotonic()) < APART_S
        process.stdin.close()
