"""Freed memory stays with the process."""

from __future__ import annotations

import gc
import subprocess
import sys

import pytest

from hostcc.planning import heap

pytestmark = pytest.mark.unit

SCRIPT = """
import resource
import numpy as np
from hostcc.planning import heap

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        np.ones(2 << 20)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

kept = heap.keep()
faults()
print(int(kept), faults())
"""


def test_memory_is_used_again() -> None:
    run = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, check=True)
    kept, faults = map(int, run.stdout.split())
    pages = 20 * (16 << 20) // (4 << 10)
    assert not kept or faults < pages / 10


def test_the_collector_rests_and_comes_back() -> None:
    assert gc.isenabled()
    with heap.uncollected():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_who_has_turned_it_off_finds_it_off() -> None:
    gc.disable()
    try:
        with heap.uncollected():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
