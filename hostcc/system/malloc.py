"""Memory while a plan is made: what the last one freed is used again, and nobody looks for cycles.

glibc gives free memory at the top of its heap back to the kernel, which hands it out again page by
page: a plan for 5,000 jobs has 10,000 page faults, or 40,000 from nothing, a tenth of its time.
Python's collector looks at all objects several times while a plan makes 100,000 without a cycle.
"""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterator
from contextlib import contextmanager

TRIM, MMAP, ARENAS = -1, -3, -8
"""M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX (malloc.h)."""
KEPT = 64 << 20
"""Bytes that may be free at the top of the heap."""
MANY = 1000
"""Jobs from which it stays free for the next plan."""
LARGE = 32 << 20
"""Bytes from which a block is the kernel's: the most that glibc comes to by itself."""


def keep() -> bool:
    """Ask for it, once in a process; False where the C library knows no such setting."""
    return _set(MMAP, LARGE) and _set(TRIM, KEPT)


def share() -> bool:
    """Have all threads share one heap; before the first thread.

    glibc gives each thread one of its own, and what one freed is of no use to another.  They take
    turns at the interpreter anyway.
    """
    return _set(ARENAS, 1)


def release() -> bool:
    """Give the kernel back what is free now, wherever it lies; False where the C library cannot.

    Takes about a millisecond; what is needed again comes page by page.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return trim is not None and bool(trim(0))


def _set(what: int, value: int) -> bool:
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and bool(mallopt(what, value))


@contextmanager
def gc_paused() -> Iterator[None]:
    """No cycles are collected meanwhile, in the whole process."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
