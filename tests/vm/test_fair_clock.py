"""The clock of a process that has to wait for a processor."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from tests import patience
from tests.vm.fair_clock import fair_clock, waited_s

BUSY = "import os, sys; os.sched_setaffinity(0, {int(sys.argv[1])})\nwhile True: pass"


@pytest.fixture
def crowd() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Two processes that both want the same processor."""
    processor = str(min(os.sched_getaffinity(0)))
    made = [subprocess.Popen([sys.executable, "-c", BUSY, processor]) for _ in range(2)]
    yield made
    for one in made:
        one.kill()
        one.wait()


def test_who_waits_for_a_processor_is_given_that_time(crowd: list[subprocess.Popen[bytes]]) -> None:
    one = crowd[0].pid
    clock, began_s = fair_clock(one), time.monotonic()
    before_s, had_s = clock(), waited_s(one)
    patience.until(lambda: waited_s(one) > had_s + 0.2, "a process that waits")
    assert clock() - before_s <= time.monotonic() - began_s - 0.2


def test_who_is_gone_has_waited_for_nothing() -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    assert waited_s(process.pid) == 0.0
