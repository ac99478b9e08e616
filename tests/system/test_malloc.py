"""Freed memory stays with the process."""

from __future__ import annotations

import gc
import subprocess
import sys

import pytest

from hostcc.system import malloc

pytestmark = pytest.mark.unit

SCRIPT = """
import resource
import numpy as np
from hostcc.system import malloc as heap

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        np.ones(2 << 20)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

kept = heap.set_trim_threshold()
faults()
print(int(kept), faults())
"""


def test_memory_is_used_again() -> None:
    run = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, check=True)
    kept, faults = map(int, run.stdout.split())
    pages = 20 * (16 << 20) // (4 << 10)
    assert not kept or faults < pages / 10


RELEASED = """
import numpy as np
from hostcc.system import malloc as heap

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096

heap.set_trim_threshold()
before = resident()
held = np.ones(2 << 20)
del held
kept = resident() - before
print(int(heap.release()), kept, resident() - before)
"""


def test_memory_goes_back() -> None:
    run = subprocess.run([sys.executable, "-c", RELEASED], capture_output=True, check=True)
    released, kept, left = map(int, run.stdout.split())
    if not released:
        pytest.skip("this C library has no malloc_trim")
    assert kept > 12 << 20
    assert left < 4 << 20


def test_the_collector_rests_and_comes_back() -> None:
    assert gc.isenabled()
    with malloc.gc_paused():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_who_has_turned_it_off_finds_it_off() -> None:
    gc.disable()
    try:
        with malloc.gc_paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


SHARED = """
import threading
import numpy as np
from hostcc.system import malloc as heap

shared = heap.share_heap()
kept = []
thread = threading.Thread(target=lambda: kept.append(np.ones(1000)))
thread.start()
thread.join()
# A heap of a thread reserves 64 MB of addresses.
lines = [line.split() for line in open("/proc/self/maps")]
ends = [(line[1], *(int(end, 16) for end in line[0].split("-"))) for line in lines]
print(int(shared), sum(mode == "---p" and (32 << 20) < end - at for mode, at, end in ends))
"""


def test_threads_share_one_heap() -> None:
    ran = subprocess.run([sys.executable, "-c", SHARED], capture_output=True, text=True, check=True)
    shared, own = map(int, ran.stdout.split())
    if not shared:
        pytest.skip("this C library has no mallopt")
    assert own == 0
