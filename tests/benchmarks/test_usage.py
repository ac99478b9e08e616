"""CPU time and memory of processes."""

from __future__ import annotations

import os
import time

import pytest

from benchmarks import usage
from benchmarks.usage import Reading

STAT = "cpu  100 10 50 9000 7 3 2 40 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n"


def test_machine_time() -> None:
    busy, stolen = usage.machine_seconds(STAT)
    assert busy == pytest.approx(165 / usage.TICKS_PER_S)
    assert stolen == pytest.approx(40 / usage.TICKS_PER_S)


def test_between_readings() -> None:
    used = usage.between(Reading(10, 1, 5, 0, 1), Reading(20, 1.5, 7.5, 0.1, 1))
    assert used.process_percent == pytest.approx(5)
    assert used.others_percent == pytest.approx(20)
    assert used.stolen_percent == pytest.approx(1)


def test_own_process() -> None:
    before = time.process_time()
    found = usage.read(os.getpid())
    assert before <= found.process_s <= time.process_time()
    assert found.resident_bytes > 1 << 20
    with pytest.raises(OSError, match="rgument"):
        usage.read(2**22 + 1)
